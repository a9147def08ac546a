#!/usr/bin/env bash
# Backs PostgreSQL up under a running platform, loses the server, restores the backup into a new one, and checks the platform on it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/backup-drill.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (release)

Everything runs on private servers. docs/guides/backup.md explains the steps.
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

begin_run backup-drill
require_packages "${server_packages[@]}" curl
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the programs (release; the first time takes minutes)" -c release -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build -c release --show-bin-path)
fi
step "Starting PostgreSQL, RabbitMQ and the platform"
choose_data_folder
begin_rabbitmq
start_postgres
finish_rabbitmq
source "$root/deploy/scripts/platform.sh"
simulator_options=(UNKNOWN_DEVICES=reject)
start_simulator
start_token_service
first_service=$started
start_dispatcher 1
push() { "$programs/pushctl" "$@" --url "$PUSH_URL" --key-file "$work/team.key"; }

step "Filling the registry"
foreground "$programs/pushctl" demo --url "$PUSH_URL" --key-file "$work/admin.key" --simulator "$SIMULATOR_URL" --app shop >"$work/demo.log" 2>&1 \
    || fail "the demonstration failed (see $work/demo.log)."
(umask 077 && "$programs/pushctl" keys create --url "$PUSH_URL" --key-file "$work/admin.key" --app shop --name drill --scopes devices,send,read --quiet >"$work/team.key")
token=00aa11bb22cc33dd44ee55ff66778899 installation=6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b11
curl -fsS -o /dev/null -X PUT "$SIMULATOR_URL/v1/devices/$token" -d '{"environment":"production","state":"installed","name":"Drill"}'
seq 1 20000 | awk -v token="$token" -v id="$installation" 'BEGIN {
    printf "{\"id\":\"%s\",\"user\":\"drill\",\"tokens\":[{\"token\":\"%s\"}]}\n", id, token }
    { printf "{\"id\":\"%08x-0000-4000-8000-000000000000\",\"user\":\"user-%d\",\"tokens\":[{\"token\":\"%032x\"}]}\n", $1, $1, $1 }' >"$work/devices.ndjson"
push import shop "$work/devices.ndjson" >"$work/import.log" 2>&1 || fail "the import failed (see $work/import.log)."

step "Backing up while the platform runs"
began=$SECONDS
pg_dump --format=custom --file="$work/push.dump" "$POSTGRES_URL" || fail "pg_dump failed."
note "$(du -h "$work/push.dump" | cut -f1) in $((SECONDS - began)) s"
push export shop -o "$work/before.ndjson" >"$work/export.log" 2>&1 || fail "the export failed (see $work/export.log)."

step "Changing owners after the backup, and losing the server"
for user in other drill; do
    curl -fsS -o /dev/null -X PUT "$PUSH_URL/v1/apps/shop/installations/$installation" -H "Authorization: Bearer $(cat "$work/team.key")" \
        -H 'Content-Type: application/json' -d "{\"user\":\"$user\",\"tokens\":[{\"token\":\"$token\"}]}" || fail "the device could not register as $user."
done
stop_process "TERM:$first_service"
stop_process "TERM:${dispatcher_ids[0]}" 30
stop_process "KILL:$postgres_id"

step "Restoring into a new one"
began=$SECONDS
data="$data/restored"
mkdir -p "$data"
[ "$(id -u)" != 0 ] || chmod 755 "$data"
start_postgres
pg_restore --exit-on-error --no-owner --dbname="$POSTGRES_URL" "$work/push.dump" || fail "pg_restore failed."
psql -q -d "$POSTGRES_URL" -c ANALYZE || fail "ANALYZE failed."
# The fences of the lost time must not stop users who register again.
psql -q -d "$POSTGRES_URL" -c "UPDATE installations SET owner_epoch = owner_epoch + 1000000" || fail "the epochs could not be raised."
$(rabbitmqctl_words) -q delete_queue push.control >"$work/rabbitmqctl.out" 2>&1 || fail "the control stream could not be deleted (see $work/rabbitmqctl.out)."
note "$((SECONDS - began)) s"

step "Checking the platform on it"
claim_port; PUSH_URL="http://127.0.0.1:$port"
start token-service-restored env HTTP_PORT="$port" POSTGRES_URL="$POSTGRES_URL" RABBITMQ_URL="$RABBITMQ_URL" "$programs/token-service"
platform_ids+=("$started")
wait_for token-service-restored "$started" 30 ready "$PUSH_URL"
start_dispatcher 2
push export shop -o "$work/after.ndjson" >>"$work/export.log" 2>&1 || fail "the export after the restore failed (see $work/export.log)."
cmp <(sort "$work/before.ndjson") <(sort "$work/after.ndjson") || fail "the registry is another one after the restore: compare before.ndjson and after.ndjson in $work."
note "the registry is the same: $(wc -l <"$work/after.ndjson") installations"
push send shop --user drill --title Restored --wait >"$work/send.log" 2>&1 || fail "a notification was not delivered after the restore (see $work/send.log)."
curl -fsS "$SIMULATOR_URL/v1/devices/$token/inbox" | grep -q Restored || fail "the notification did not reach the device."
note "a notification reached its device"
say "The backup restores."
