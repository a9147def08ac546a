#!/usr/bin/env bash
# Checks the pages for teams that write a client or a forwarding backend of their own: their programs and their recorded exchanges.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-device-protocol.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (debug)

Tries the Python and the Node program of docs/guides/forwarding.md against a stand-in for the platform. Then starts PostgreSQL, RabbitMQ, the
simulator, the token service and a dispatcher on free loopback ports, and replays the exchanges of docs/guides/device-protocol.md. A minute of
that is the life of a credential. After a change of the API, `Tests/DeviceProtocol/exchanges.py … --record` writes the new answers into the page.
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

begin_run device-protocol
require_packages "${server_packages[@]}" python3 curl
# A Node from elsewhere does, too.
command -v node >/dev/null || require_packages nodejs
export PYTHONDONTWRITEBYTECODE=1
step "Trying the programs of docs/guides/forwarding.md"
foreground "$root/Tests/DeviceProtocol/forwarding.py" || fail "a program of the page forwards what it must refuse, or the other way round (above)."
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the platform (debug; the first time takes minutes)" "${debug_arguments[@]}" -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build --show-bin-path)
fi
source "$root/deploy/scripts/platform.sh"
began=$SECONDS

step "Starting PostgreSQL, RabbitMQ and the platform"
choose_data_folder
begin_rabbitmq
start_postgres
finish_rabbitmq
simulator_options=(UNKNOWN_DEVICES=reject)
start_simulator
export DEVICE_CREDENTIAL_KEYS_FILE="$work/credentials/device.keys"
start_token_service
start_dispatcher 1
export PUSH_URL PUSH_KEY_FILE="$work/admin.key"
"$programs/pushctl" apps create shop --bundle-id com.example.shop >/dev/null || fail "pushctl could not make the app."
PUSH_KEY=$("$programs/pushctl" keys create --app shop --name exchanges --scopes devices,send,read --quiet) || fail "pushctl could not make a key."
export PUSH_KEY

step "Replaying the exchanges of docs/guides/device-protocol.md"
foreground "$root/Tests/DeviceProtocol/exchanges.py" "$PUSH_URL" "$SIMULATOR_URL" || fail "the page does not say what the platform does (above)."
note "in $((SECONDS - began)) s"
