# Shared by deploy/run, deploy/test, deploy/bench: words for people, what the machine must have, and an end that leaves nothing behind.
# Sourced, never run. Sets: root (the checkout), work (this run's folder, ignored by git), and with memory_folder: memory.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work= memory=
owned_processes=()   # SIGNAL:ID of the processes this run started, oldest first
foreground_group=    # process group of what this run waits for
claimed_ports=()     # folders that tell a second run which ports are taken
changed_settings=()  # FILE=VALUE of the machine's settings that this run changed, as they were

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'; else bold= dim= red= plain=; fi
say()  { printf '%s\n' "$*"; }
step() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }
note() { printf '%s    %s%s\n' "$dim" "$*" "$plain"; }
# One clear sentence, then the end.
fail() { printf '%s%s: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2; exit 1; }

# Makes this run's folder and sees to it that everything started here ends with it, on success, failure and Ctrl-C alike.
begin_run() {
    mkdir -p "$root/.push"
    work=$(mktemp -d "$root/.push/$1.XXXXXX")
    chmod 711 "$work" # the database account must get through to its data; secrets in here are files of their own mode
    trap end_run EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# Sets memory to a folder of this run for what shall not go to the disk; where there is no such file system with so many MiB free, to the run's
# own folder.
memory_folder() {
    local free
    free=$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    memory=$work
    [ "${free:-0}" -lt "$1" ] || memory=$(mktemp -d /dev/shm/push.XXXXXX 2>/dev/null) || memory=$work
    chmod 711 "$memory" # the database account must get through to its data
}

end_run() {
    local status=$? id setting
    trap - EXIT
    # A second Ctrl-C would end this half-way, and leave behind what is not stopped yet. Each stop has its own bound.
    trap '' INT TERM HUP
    set +e
    stop_foreground 10
    stop_owned
    for id in "${claimed_ports[@]+"${claimed_ports[@]}"}"; do rmdir "$id" 2>/dev/null; done
    for setting in "${changed_settings[@]+"${changed_settings[@]}"}"; do echo "${setting#*=}" >"${setting%%=*}"; done
    [ -z "$memory" ] || [ "$memory" = "$work" ] || rm -rf "$memory"
    # Ctrl-C is a person who has seen enough; after a failure the logs stay.
    if [ "$status" = 0 ] || [ "$status" = 130 ] || [ "${CI:-}" = true ]; then
        rm -rf "$work" "${data:-}"
    elif [ -d "$work" ]; then
        printf 'The logs of this run are in %s\n' "$work" >&2
    fi
    exit "$status"
}

# The newest first.
stop_owned() {
    local index
    for ((index = ${#owned_processes[@]} - 1; index >= 0; index--)); do
        stop_process "${owned_processes[index]}"
    done
    owned_processes=()
}

# Runs COMMAND and waits for it. In a process group of its own, with what it starts: bash acts on a signal only when a command that it did not put
# in the background has ended, which may take minutes, and the caller that stops this run may not wait so long before SIGKILL.
foreground() {
    local status=0
    set -m
    "$@" </dev/null &
    foreground_group=$!
    set +m
    wait "$foreground_group" || status=$?
    foreground_group=
    return "$status"
}

# stop_foreground SECONDS: so long it may take to end.
stop_foreground() {
    [ -z "$foreground_group" ] || stop_process "TERM:-$foreground_group" "$1"
    foreground_group=
}

# SIGNAL:ID, ten SECONDS of grace where nothing is said, then SIGKILL; always by id, and only what this run started. A negative ID is that of a
# process group. Never fails, also when the process is gone already, so that a clean-up goes on. stop_process SIGNAL:ID [SECONDS]
stop_process() {
    local signal=${1%%:*} id=${1##*:} ticks=$((${2:-10} * 10)) tick
    kill -CONT "$id" 2>/dev/null || :
    kill -"$signal" "$id" 2>/dev/null || return 0
    for ((tick = 0; tick < ticks; tick++)); do
        kill -0 "$id" 2>/dev/null || break
        sleep 0.1
    done
    [ "$tick" -lt "$ticks" ] || kill -KILL "$id" 2>/dev/null || :
    # The group's leader is what was started here.
    wait "${id#-}" 2>/dev/null || :
}

# start NAME COMMAND…: in the background, output to $work/NAME.log, stopped by end_run with $stop_signal (TERM). Sets $started to its id.
start() {
    local name=$1
    shift
    # Before the process, which opens it a moment later: who reads it meanwhile must find it.
    : >"$work/$name.log"
    # In a session of its own, so that Ctrl-C reaches this script alone, which then stops everything in order.
    setsid "$@" >"$work/$name.log" 2>&1 </dev/null &
    started=$!
    owned_processes+=("${stop_signal:-TERM}:$started")
}

# Waits until COMMAND succeeds; fails with the end of the log when process ID ends first or SECONDS pass.
# wait_for NAME ID SECONDS COMMAND…
wait_for() {
    local name=$1 id=$2 deadline=$((SECONDS + $3))
    shift 3
    until "$@" >/dev/null 2>&1; do
        kill -0 "$id" 2>/dev/null || { tail -n 20 "$work/$name.log" >&2; fail "$name ended while starting (its last lines are above)."; }
        ((SECONDS < deadline)) || { tail -n 20 "$work/$name.log" >&2; fail "$name was not ready in time (its last lines are above)."; }
        sleep 0.2
    done
}

port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Sets $port to a free loopback port below the ephemeral range, claimed against another run on this machine.
claim_port() {
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        port=$((15000 + RANDOM % 15000))
        mkdir "${TMPDIR:-/tmp}/push-port-$port" 2>/dev/null || continue
        claimed_ports+=("${TMPDIR:-/tmp}/push-port-$port")
        port_answers "$port" || return 0
    done
    fail "found no free port between 15000 and 30000 on 127.0.0.1; stop what is not needed, or remove stale ${TMPDIR:-/tmp}/push-port-* folders."
}

# --- what the machine must have -------------------------------------------------------------------------------------

require_swift() {
    command -v swift >/dev/null || fail "Swift is not on the PATH; install Swift 6.3 or newer from https://www.swift.org/install and try again."
    local version
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || fail "'swift --version' gave no version; is the toolchain whole?"
    if [ "$(printf '%s\n6.3\n' "$version" | sort -V | head -n 1)" != 6.3 ]; then
        fail "Swift $version is too old; 6.3 or newer is needed (https://www.swift.org/install)."
    fi
}

package_lists= # set once this run has fetched them

# Installs the Debian packages that are missing. require_packages PACKAGE…
require_packages() {
    local missing=() package admin=()
    command -v dpkg-query >/dev/null || fail "this script installs Debian packages, and there is no dpkg here; see .github/CONTRIBUTING.md."
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    step "Installing ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || fail "these Debian packages are missing and installing them needs root: run 'sudo apt-get install ${missing[*]}' and try again."
        admin=(sudo -n)
    fi
    # A package's own start-up of its server is not wanted: this run starts private ones.
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | ${admin[@]+"${admin[@]}"} tee "$policy" >/dev/null && ${admin[@]+"${admin[@]}"} chmod +x "$policy" && made=1
    fi
    local log="$work/apt.log" status=0
    { { [ -n "$package_lists" ] || ${admin[@]+"${admin[@]}"} apt-get update -q; } && DEBIAN_FRONTEND=noninteractive ${admin[@]+"${admin[@]}"} apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"; } >"$log" 2>&1 || status=$?
    [ -z "$made" ] || ${admin[@]+"${admin[@]}"} rm -f "$policy"
    package_lists=fresh
    [ "$status" = 0 ] || { tail -n 5 "$log" >&2; fail "apt-get could not install ${missing[*]} (its last lines are above)."; }
}

library_packages=(libpq-dev librabbitmq-dev libnghttp2-dev libssl-dev pkg-config)
server_packages=(postgresql rabbitmq-server openssl ca-certificates util-linux)

# --- building -------------------------------------------------------------------------------------------------------

# What deploy/run and deploy/test share, so that the second command finds the work of the first one done.
debug_arguments=(-c debug --explicit-target-dependency-import-check error)
programs_of_the_platform=(token-service dispatcher apns-simulator pushctl)
benchmark_programs=(BareConsumer BarePublisher DispatcherBenchmark GrowthBenchmark JobCodecBenchmark NotificationBenchmark RegistryBenchmark SimulatorBenchmark)
build_id= build_began=

# begin_build WORDS [ARGUMENT of swift build]… -- PRODUCT…: builds in the background, so that servers can be installed and started meanwhile.
# finish_build waits for it. The whole output goes to $work/build.log.
begin_build() {
    step "Building $1"
    shift
    build_began=$SECONDS
    start build "$root/deploy/scripts/build-products.sh" "$@"
    build_id=$started
    # The compiler's processes end with the script: 'start' gave it a process group of its own.
    owned_processes[${#owned_processes[@]} - 1]="TERM:-$build_id"
}

finish_build() {
    local log="$work/build.log" status=0 line shown=
    while kill -0 "$build_id" 2>/dev/null; do
        line=$(build_progress "$log")
        if [ -n "$line" ] && [ "$line" != "$shown" ]; then note "$line"; shown=$line; fi
        sleep 1
    done
    wait "$build_id" || status=$?
    if [ "$status" != 0 ]; then
        grep -E 'error:' "$log" | sort -u | sed -n 1,20p >&2 || tail -n 20 "$log" >&2
        fail "the build failed (errors above, everything in $log)."
    fi
    note "built in $((SECONDS - build_began)) s"
}

# build_progress LOG: the product under way and the twentieth of its steps that is done. Few steps are not worth a line.
build_progress() {
    awk '/^product / { product = $2; text = "" }
        match($0, /^\[[0-9]+\/[0-9]+\]/) { split(substr($0, 2, RLENGTH - 2), part, "/"); share = int(20 * part[1] / part[2])
            if (part[2] >= 50) text = sprintf("%-16s %3d %%", product, share * 5) }
        END { print text }' "$1"
}

# Sets $environment to .push/NAME, a Python environment with the packages of REQUIREMENTS (a path in the checkout). What stands there in these
# versions is kept. A second run waits here, and finds the first one's work. python_environment NAME REQUIREMENTS
python_environment() {
    local wanted="$root/$2"
    environment="$root/.push/$1"
    exec 9>"$environment.lock"
    flock 9
    if ! cmp -s "$wanted" "$environment/installed"; then
        step "Installing the Python packages of $2 (into .push)"
        rm -rf "$environment"
        foreground python3 -m venv "$environment" || fail "'python3 -m venv' could not make $environment."
        foreground "$environment/bin/pip" install --disable-pip-version-check --quiet --no-deps --requirement "$wanted" \
            || fail "pip could not get the packages of $2 from the Python package index (above)."
        cp "$wanted" "$environment/installed"
    fi
    exec 9>&-
}

# build WORDS [ARGUMENT]… -- PRODUCT…: both in one.
build() {
    begin_build "$@"
    finish_build
}
