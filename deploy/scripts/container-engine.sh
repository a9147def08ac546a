# Podman with a storage, networks and settings of this run's own, for deploy/containers. Sourced after common.sh.

project=push$$ # the name of this run's network: Podman keeps some of a network's files outside its own folders
engine_folder= # what Podman keeps while it runs: short paths, because a Unix socket's path has at most 108 characters

# Sets CONTAINERS_CONF and CONTAINERS_STORAGE_CONF, which podman and podman-compose obey. After begin_run.
begin_engine() {
    [ "$(id -u)" = 0 ] || fail "deploy/containers needs root: debootstrap and Podman's networks do."
    require_packages podman runc containernetworking-plugins golang-github-containernetworking-plugin-dnsname iptables \
        curl git python3-venv util-linux
    engine_folder=$(mktemp -d /tmp/push-podman.XXXXXX)
    trap end_engine EXIT
    mkdir "$work/storage" "$work/networks" "$work/tmp"
    # runc and cgroupfs run on every kind of cgroups. Podman's own limits are above those of a machine that is a container itself.
    cat >"$work/containers.conf" <<C
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4000:4000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "$engine_folder/tmp"
image_copy_tmp_dir = "$work/tmp"
[network]
network_backend = "cni"
network_config_dir = "$work/networks"
C
    cat >"$work/storage.conf" <<C
[storage]
driver = "overlay"
graphroot = "$work/storage"
runroot = "$engine_folder/run"
C
    # The last two: deploy/containers itself runs the health checks, and images have the format that knows health checks.
    export CONTAINERS_CONF="$work/containers.conf" CONTAINERS_STORAGE_CONF="$work/storage.conf"
    export DISABLE_HC_SYSTEMD=true BUILDAH_FORMAT=docker
    must "Podman does not work here" podman info
}

# Removes containers, volumes, networks and the storage, and then what begin_run made.
end_engine() {
    local status=$? mount
    trap '' INT TERM HUP
    set +e
    stop_foreground 10
    {
        timeout 120 podman rm --all --force --time 0
        timeout 60 podman network rm --force "${project}_default"
        rm -rf "/var/lib/cni/networks/${project}_default" "/run/containers/cni/dnsname/${project}_default"
        # A mount that is left over would keep rm from the files.
        findmnt --list --noheadings --output TARGET | grep -F -e "$work/storage" -e "$engine_folder" | sort -r \
            | while IFS= read -r mount; do umount "$mount"; done
    } >"$work/end.log" 2>&1
    rm -rf --one-file-system "$work/storage" "$work/tmp" "$engine_folder"
    (exit "$status")
    end_run
}

# run COMMAND…: its output goes to $work/output, and its last lines are shown if it fails.
run() {
    foreground "$@" >"$work/output" 2>&1 && return
    tail -n 20 "$work/output" | sed 's/^/    /' >&2
    return 1
}

# must FAULT COMMAND…: ends with the fault if the command fails.
must() {
    local fault=$1
    shift
    run "$@" || fail "$fault (above)."
}

# build_image NAME OPTION…: the caches of the build's steps stay in this run's folder.
build_image() {
    must "podman could not build the image $1" env TMPDIR="$work/tmp" podman build --isolation chroot --tag "$@"
}

# Sets tools to the programs of a Python environment with podman-compose and a validator of SBOMs: .push/container-tools, made once.
prepare_tools() {
    local folder="$root/.push/container-tools" lock wanted=(podman-compose==1.6.0 'cyclonedx-python-lib[json-validation]==11.12.0')
    exec {lock}>"$folder.lock"
    flock "$lock"
    if [ "$(cat "$folder/installed" 2>/dev/null)" != "${wanted[*]}" ]; then
        rm -rf "$folder"
        must "python3 could not make $folder" python3 -m venv "$folder"
        must "pip could not install ${wanted[*]}" "$folder/bin/pip" install --disable-pip-version-check --quiet "${wanted[@]}"
        printf '%s\n' "${wanted[*]}" >"$folder/installed"
    fi
    exec {lock}>&-
    tools="$folder/bin"
}
