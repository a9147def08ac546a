#!/usr/bin/env bash
# Tries the token service's console in a headless Chromium, against a private platform with notifications of every kind.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-console.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (debug)

Starts PostgreSQL, RabbitMQ, the simulator, the token service and a dispatcher on free loopback ports. The screenshots go to this run's folder, or
to the folder that PUSH_TEST_SCREENSHOTS names.
U
}
programs=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; fail "unknown option '$1'." ;;
        *) programs=$1 ;;
    esac
    shift
done

begin_run console
require_packages "${server_packages[@]}" chromium fonts-liberation python3 curl
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the platform (debug; the first time takes minutes)" "${debug_arguments[@]}" -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build --show-bin-path)
fi
source "$root/deploy/scripts/platform.sh"
pictures=${PUSH_TEST_SCREENSHOTS:-$work/screenshots}
mkdir -p "$pictures"

step "Starting PostgreSQL, RabbitMQ and the platform"
choose_data_folder
begin_rabbitmq
start_postgres
finish_rabbitmq
# The simulator refuses unknown tokens, a delivery gets one try, a webhook two, and webhooks may lead to this machine.
simulator_options=(UNKNOWN_DEVICES=reject)
start_simulator
# The test has more apps. The key of the demonstration may send for all of them.
sed -i 's/"apps":\["shop"\]/"apps":["shop","cafe","kiosk"]/' "$work/credentials/credentials.json"
export WEBHOOK_INSECURE=true WEBHOOK_RETRY_SECONDS=0 CHANNELS_LIST_INTERVAL_SECONDS=1
start_token_service
dispatcher_options=(MAXIMUM_ATTEMPTS=1)
start_dispatcher 1

step "Trying the console in Chromium"
began=$SECONDS
foreground env PYTHONDONTWRITEBYTECODE=1 python3 "$root/Tests/Page/console_test.py" \
    "$PUSH_URL/console" "$PUSH_URL" "$SIMULATOR_URL" "$work/admin.key" "$work" "$pictures" \
    || fail "the console does not do what it promises (above); screenshots are in $pictures."
note "in $((SECONDS - began)) s; $(find "$pictures" -name '*.png' | wc -l) screenshots"
