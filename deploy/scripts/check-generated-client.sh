#!/usr/bin/env bash
# Generates a Python client from the token service's OpenAPI document, and uses it against a private platform as a backend would.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-generated-client.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (debug)

Starts PostgreSQL, RabbitMQ, the simulator, the token service and a dispatcher on free loopback ports. Keeps the generator in .push. The
generated client stands in this run's folder and goes with it.
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

# The generator knows no streams of lines: it leaves out the import, and the answer of the export. It must understand all else.
# Of a body with two media types it makes a module that Python cannot import, so it gets the document with one of them.
generate() {
    local log="$work/generator.log" streams='(POST /v1/apps/\{app\}/import|GET /v1/apps/\{app\}/export)' complaints
    "$programs/token-service" openapi >"$work/openapi.json"
    jq 'del(.paths[][].requestBody?.content?["application/merge-patch+json"])' "$work/openapi.json" >"$work/for-generator.json"
    foreground "$generator/openapi-python-client" generate --path "$work/for-generator.json" --output-path "$work/push_client" --meta none \
        --config "$root/Tests/GeneratedClient/generator.yml" >"$log" 2>&1 \
        || { cat "$log" >&2; fail "the generator refuses the document (above)."; }
    complaints=$(grep -E '^(WARNING|ERROR|Unable)' "$log" | grep -vE "^WARNING parsing $streams " || :)
    [ -z "$complaints" ] || { cat "$log" >&2; fail "the generator does not understand parts of the document (above): $complaints"; }
}

begin_run generated-client
require_packages "${server_packages[@]}" python3 python3-venv curl jq
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the platform (debug; the first time takes minutes)" "${debug_arguments[@]}" -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build --show-bin-path)
fi
source "$root/deploy/scripts/platform.sh"
export PYTHONDONTWRITEBYTECODE=1
python_environment generated-client Tests/GeneratedClient/requirements.txt
generator="$environment/bin"
began=$SECONDS

step "Starting PostgreSQL, RabbitMQ and the platform"
choose_data_folder
begin_rabbitmq
start_postgres
generate
finish_rabbitmq
start_simulator
# The test's webhook leads to this machine.
export DEVICE_CREDENTIAL_KEYS_FILE="$work/credentials/device.keys" WEBHOOK_INSECURE=true
start_token_service
start_dispatcher 1

step "Using the generated client"
foreground env PYTHONPATH="$work" "$generator/python" "$root/Tests/GeneratedClient/generated_client_test.py" \
    "$work/openapi.json" "$PUSH_URL" "$SIMULATOR_URL" "$work/admin.key" \
    || fail "the generated client does not do what the document promises (above)."
note "in $((SECONDS - began)) s; $(find "$work/push_client" -name '*.py' | wc -l) generated files"
