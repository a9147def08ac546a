#!/usr/bin/env bash
# Runs the platform with the least rights that the runbook grants, word for word, against private servers: the demonstration must pass, and what is not granted must be refused.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-privileges.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (release)
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

begin_run privileges
require_packages "${server_packages[@]}" curl
runbook="$root/docs/guides/install.md"
step "Starting PostgreSQL and RabbitMQ"
choose_data_folder
begin_rabbitmq
start_postgres
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the programs (release; the first time takes minutes)" -c release -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build -c release --show-bin-path)
fi
finish_rabbitmq
source "$root/deploy/scripts/platform.sh"

step "Making the accounts of the runbook"
sed -n '/^```sql$/,/^```$/p' "$runbook" | grep -v '^```' >"$work/grants.sql"
grep -q push_service "$work/grants.sql" || fail "the runbook's grants for PostgreSQL were not found in $runbook."
psql -q -v ON_ERROR_STOP=1 -d "$POSTGRES_URL" -f "$work/grants.sql" >"$work/grants.log" 2>&1 || { tail -n 5 "$work/grants.log" >&2; fail "the runbook's grants for PostgreSQL cannot be run (above)."; }
server=${POSTGRES_URL#*@}
env POSTGRES_URL="postgresql://push_owner@$server" RABBITMQ_URL="$RABBITMQ_URL" "$programs/token-service" migrate >"$work/migrate.log" 2>&1 || fail "push_owner cannot migrate (see $work/migrate.log)."

rabbit() { env "${rabbitmq_environment[@]}" ${server_prefix[@]+"${server_prefix[@]}"} /usr/lib/rabbitmq/bin/rabbitmqctl -q "$@" >>"$work/rabbitmqctl.out" 2>&1 || fail "rabbitmqctl $1 failed (see $work/rabbitmqctl.out)."; }
# The three rights of `rabbitmqctl set_permissions ACCOUNT …`, each between quotes on that line or the next one.
rights() {
    local command
    command=$(grep -A 1 "^rabbitmqctl set_permissions $1 " "$runbook") || fail "the guide has no rights for the account $1."
    printf '%s\n' "$command" | grep -oE "'[^']+'" | tr -d "'"
}
"$programs/dispatcher" topology >"$work/definitions.json"
rabbit await_startup
rabbit import_definitions "$work/definitions.json"
for account in token-service dispatcher; do
    rabbit add_user "$account" secret
    mapfile -t granted < <(rights "$account")
    [ ${#granted[@]} = 3 ] || fail "the runbook's rights of $account are not three."
    rabbit set_permissions "$account" "${granted[@]}"
done
broker() { printf 'amqp://%s:secret@127.0.0.1:%s/' "$1" "$rabbitmq_port"; }

step "The demonstration, with these accounts"
export BROKER_TOPOLOGY=operators
POSTGRES_URL="postgresql://push_service@$server"
start_simulator
RABBITMQ_URL=$(broker token-service)
start_token_service
RABBITMQ_URL=$(broker dispatcher)
start_dispatcher 1
start_dispatcher 2
call() { "$programs/pushctl" "$@" --url "$PUSH_URL" --key-file "$work/admin.key" >>"$work/pushctl.out" 2>&1 || { tail -n 5 "$work/pushctl.out" >&2; fail "pushctl $* failed with these accounts (above)."; }; }
call demo --simulator "$SIMULATOR_URL" --app shop
call hold set shop --lane bulk --reason test
call hold list shop
call dead list

step "What is not granted"
# Each with the other's account: the broker must refuse it. The dispatcher, which can do nothing then, must not become ready either; the token
# service can still serve its registry, and says in its log that outcomes do not come.
refused() {
    local name=$1 deadline=$((SECONDS + 30))
    until grep -qF 'ACCESS_REFUSED' "$work/$name.log"; do
        ((SECONDS < deadline)) || fail "$name with the other's account was not refused (see $work/$name.log)."
        sleep 0.2
    done
    [ $# = 1 ] || ! ready "$2" >/dev/null 2>&1 || fail "$name works with the other's account."
}
claim_port
start dispatcher-as-token-service env OPERATIONS_PORT="$port" INSTANCE=other RABBITMQ_URL="$(broker token-service)" APNS_CREDENTIALS_FILE="$work/credentials/credentials.json" \
    APNS_CA_FILE="$work/credentials/ca.crt" APNS_PRODUCTION_URL="https://localhost:$production_port" APNS_SANDBOX_URL="https://localhost:$sandbox_port" "$programs/dispatcher"
refused dispatcher-as-token-service "http://127.0.0.1:$port"
claim_port
start token-service-as-dispatcher env HTTP_PORT="$port" POSTGRES_URL="$POSTGRES_URL" RABBITMQ_URL="$(broker dispatcher)" "$programs/token-service"
refused token-service-as-dispatcher
for statement in 'CREATE TABLE mine (n int)' 'DROP TABLE tokens' 'DROP TABLE notifications_rest' 'TRUNCATE tokens'; do
    ! psql -q -d "$POSTGRES_URL" -c "$statement" >>"$work/refused.out" 2>&1 || fail "push_service may '$statement'."
done

"$root/deploy/scripts/check-logs.sh" "$work"
say "the runbook's accounts are enough, and not more than the other service's"
