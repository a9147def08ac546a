#!/usr/bin/env bash
# Backs PostgreSQL up under a running platform, loses the server, restores the backup into a new one, and checks the platform on it. Then it
# loses the control stream.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/backup-drill.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (release)

Everything runs on private servers. docs/guides/backup.md explains the steps, docs/runbook/jobs-queue-refuses.md those
after the loss of the control stream.
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
broker() { $(rabbitmqctl_words) -q "$@"; }
# The commands of the handbook must find the queues in a virtual host of the operator's choice.
broker add_vhost push && broker set_permissions -p push guest '.*' '.*' '.*' || fail "the virtual host could not be made."
RABBITMQ_URL+=push
source "$root/deploy/scripts/platform.sh"
simulator_options=(UNKNOWN_DEVICES=reject)
start_simulator
start_token_service
first_service=$started
start_dispatcher 1
push() { "$programs/pushctl" "$@" --url "$PUSH_URL" --key-file "$work/team.key"; }
admin() { "$programs/pushctl" "$@" --url "$PUSH_URL" --key-file "$work/admin.key"; }
# sql ARGUMENTS: what a query, or a file of deploy/sql, prints.
sql() { psql -q -A -t -v ON_ERROR_STOP=1 "$@" "$POSTGRES_URL"; }

# Each device has a name: its user's, and the title of its notification.
digest() { printf %s "$1" | sha256sum; }
token_of() { digest "$1" | cut -c1-32; }
installation_of() { digest "$1" | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/'; }
register() { # DEVICE USER
    curl -fsS -o /dev/null -X PUT "$PUSH_URL/v1/apps/shop/installations/$(installation_of "$1")" -H "Authorization: Bearer $(cat "$work/team.key")" \
        -H 'Content-Type: application/json' -d "{\"user\":\"$2\",\"tokens\":[{\"token\":\"$(token_of "$1")\"}]}" || fail "$1 could not register as $2."
}
install() { # DEVICE…: APNs knows it, and its user is signed in.
    local name
    for name in "$@"; do
        curl -fsS -o /dev/null -X PUT "$SIMULATOR_URL/v1/devices/$(token_of "$name")" -d "{\"environment\":\"production\",\"name\":\"$name\"}"
        register "$name" "$name"
    done
}
# busy DEVICE…: APNs answers 429 until `well DEVICE…`, so jobs wait in the retry queues.
busy() { for name in "$@"; do curl -fsS -o /dev/null -X PUT "$SIMULATOR_URL/v1/devices/$(token_of "$name")/script" \
    -d '{"answers":[{"status":429,"reason":"TooManyRequests"}],"then":"repeat"}'; done; }
well() { for name in "$@"; do curl -fsS -o /dev/null -X DELETE "$SIMULATOR_URL/v1/devices/$(token_of "$name")/script"; done; }
accepted() { curl -fsS "$SIMULATOR_URL/v1/devices/$(token_of "$1")" | grep -o '"accepted": *[0-9]*' | grep -o '[0-9]*$'; }
expect() { # DEVICE COUNT WHY
    [ "$(accepted "$1")" = "$2" ] || fail "the device of $1 got $(accepted "$1") notifications instead of $2: $3."
}
send() { push send shop --user "$1" --title "$1" | cut -d' ' -f1; } # DEVICE: prints the id
schedule() { # DEVICE: an hour ahead, to the installation; prints the id
    printf '{"to":{"installation":"%s"},"payload":{"aps":{"alert":{"title":"%s"}}},"not_before":"%s"}' "$(installation_of "$1")" "$1" \
        "$(date -u -d '+1 hour' +%FT%TZ)" | push send shop --file - | cut -d' ' -f1
}
hour_passes() { sql -c "UPDATE fan_outs SET not_before = now(), due_at = now(), free_from = now() WHERE notification = '$1'"; }
settled() { [ "$(sql -c "SELECT state IN ('completed', 'cancelled') AND pending = 0 FROM notifications WHERE id = '$1'")" = t ]; }
retries_wait() { [ "$(broker list_queues -p push name messages | awk '$1 ~ /^push\.retry\./ { sum += $2 } END { print sum + 0 }')" -ge "$1" ]; }
purge_queues() {
    local queue
    broker list_queues -p push name messages | grep '^push\.' >/dev/null || return 1
    for queue in $(broker list_queues -p push name messages | awk '/^push\.(jobs|retry|dead|outcomes)/ && $2 > 0 { print $1 }'); do
        broker purge_queue -p push "$queue" >/dev/null
    done
    ! retries_wait 1
}
control_is_published() { [ "$(sql -f "$root/deploy/sql/control-to-publish.sql")" = 0 ]; }
is_held() { curl -fsS "${dispatcher_urls[$1]}/metrics" | grep -q '^push_dispatcher_deliveries_held_total.* [1-9]'; }
# start_service NAME: a token service on the database as it is now.
start_service() {
    claim_port; PUSH_URL="http://127.0.0.1:$port"
    start "$1" env HTTP_PORT="$port" POSTGRES_URL="$POSTGRES_URL" RABBITMQ_URL="$RABBITMQ_URL" "$programs/token-service"
    service=$started
    platform_ids+=("$service")
    wait_for "$1" "$service" 30 ready "$PUSH_URL"
    wait_for "$1" "$service" 60 control_is_published
}

step "Filling the registry"
foreground "$programs/pushctl" demo --url "$PUSH_URL" --key-file "$work/admin.key" --simulator "$SIMULATOR_URL" --app shop >"$work/demo.log" 2>&1 \
    || fail "the demonstration failed (see $work/demo.log)."
(umask 077 && "$programs/pushctl" keys create --url "$PUSH_URL" --key-file "$work/admin.key" --app shop --name drill --scopes devices,send,read --quiet >"$work/team.key")
install drill ada bob carl dan eve
seq 1 20000 | awk '{ printf "{\"id\":\"%08x-0000-4000-8000-000000000000\",\"user\":\"user-%d\",\"tokens\":[{\"token\":\"%032x\"}]}\n", $1, $1, $1 }' >"$work/devices.ndjson"
push import shop "$work/devices.ndjson" >"$work/import.log" 2>&1 || fail "the import failed (see $work/import.log)."

step "Sending: a sign-out, a hold, a cancellation, and two that are due later"
busy ada bob carl
ada=$(send ada) bob=$(send bob) carl=$(send carl) dan=$(schedule dan) eve=$(schedule eve)
wait_for dispatcher-1 "${dispatcher_ids[0]}" 60 retries_wait 3
register ada grace
admin hold set shop --notification "$bob" --reason drill >"$work/hold.log" 2>&1 || fail "the hold could not be set (see $work/hold.log)."
push cancel shop "$carl" >"$work/cancel.log" 2>&1 || fail "the notification could not be cancelled (see $work/cancel.log)."

step "Backing up while the platform runs"
began=$SECONDS
pg_dump --format=custom --file="$work/push.dump" "$POSTGRES_URL" || fail "pg_dump failed."
note "$(du -h "$work/push.dump" | cut -f1) in $((SECONDS - began)) s"
push export shop -o "$work/before.ndjson" >"$work/export.log" 2>&1 || fail "the export failed (see $work/export.log)."

step "Sending and changing owners after the backup, and losing the server"
hour_passes "$eve"
wait_for dispatcher-1 "${dispatcher_ids[0]}" 30 settled "$eve"
expect eve 1 "it was due"
register drill other
register drill drill
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
hour_passes "$eve"
wait_for rabbitmq "$rabbitmq_id" 60 purge_queues
broker delete_queue -p push push.control >"$work/rabbitmqctl.out" 2>&1 || fail "the control stream could not be deleted (see $work/rabbitmqctl.out)."
sql -f "$root/deploy/sql/after-restore.sql" >"$work/perhaps-sent.txt" || fail "deploy/sql/after-restore.sql failed."
note "$((SECONDS - began)) s"

step "Checking the platform on it"
well ada bob carl
start_service token-service-restored
start_dispatcher 2
push export shop -o "$work/after.ndjson" >>"$work/export.log" 2>&1 || fail "the export after the restore failed (see $work/export.log)."
cmp <(sort "$work/before.ndjson") <(sort "$work/after.ndjson") || fail "the registry is another one after the restore: compare before.ndjson and after.ndjson in $work."
note "the registry is the same: $(wc -l <"$work/after.ndjson") installations"
grep -qx "shop $eve" "$work/perhaps-sent.txt" || fail "$work/perhaps-sent.txt lacks a notification that was sent after the backup."
grep -q -e "$dan" -e "$carl" "$work/perhaps-sent.txt" && fail "$work/perhaps-sent.txt names a notification that cannot be sent twice."
push cancel shop "$eve" >>"$work/cancel.log" 2>&1 || fail "the notification could not be cancelled (see $work/cancel.log)."
admin hold lift --all-apps "$(sql -c "SELECT id FROM holds WHERE app_id IS NULL AND lifted_at IS NULL")" >>"$work/hold.log" 2>&1 \
    || fail "the hold of the restore could not be lifted (see $work/hold.log)."
push send shop --user drill --title Restored --wait >"$work/send.log" 2>&1 || fail "a notification was not delivered after the restore (see $work/send.log)."
expect drill 1 "it registered again"
note "a notification reached its device"
hour_passes "$dan"
for id in "$ada" "$carl" "$dan" "$eve"; do wait_for token-service-restored "$service" 60 settled "$id"; done
expect ada 0 "another user is signed in there"
expect bob 0 "it is held"
expect carl 0 "it was cancelled"
expect dan 1 "it was due after the restore"
expect eve 1 "it was sent before the loss, and cancelled after it"
note "a sign-out, a hold and a cancellation count, and nothing was sent twice"

step "Losing the control stream"
install rose hank paul
busy rose hank paul
rose=$(send rose) hank=$(send hank) paul=$(send paul)
wait_for dispatcher-2 "${dispatcher_ids[1]}" 60 retries_wait 3
register rose sam
admin hold set shop --notification "$hank" --reason drill >>"$work/hold.log" 2>&1 || fail "the hold could not be set (see $work/hold.log)."
push cancel shop "$paul" >>"$work/cancel.log" 2>&1 || fail "the notification could not be cancelled (see $work/cancel.log)."
stop_process "TERM:${dispatcher_ids[1]}" 30
well rose hank paul
broker delete_queue -p push push.control >"$work/rabbitmqctl.out" 2>&1 || fail "the control stream could not be deleted (see $work/rabbitmqctl.out)."
sql -f "$root/deploy/sql/publish-control-again.sql" || fail "deploy/sql/publish-control-again.sql failed."
stop_process "TERM:$service"
start_service token-service-again
start_dispatcher 3
for id in "$rose" "$paul"; do wait_for dispatcher-3 "${dispatcher_ids[2]}" 90 settled "$id"; done
wait_for dispatcher-3 "${dispatcher_ids[2]}" 90 is_held 2
expect rose 0 "another user is signed in there"
expect hank 0 "it is held"
expect paul 0 "it was cancelled"
note "the new stream has the sign-out, the hold and the cancellation"
say "The backup restores."
