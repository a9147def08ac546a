#!/usr/bin/env bash
# Lets a real Prometheus read a running platform: every expression of the dashboards, and all series that the rules read, must be there.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/deploy/scripts/servers.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-scrape.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it they are built (debug)

Starts private servers, the simulator, two token services, a dispatcher and Prometheus on loopback. Then Tests/Monitoring/scrape_test.py causes
what the metrics count, and asks Prometheus. promtool checks the text of each /metrics.
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

begin_run scrape
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the four programs (debug; the first time takes minutes)" "${debug_arguments[@]}" -- "${programs_of_the_platform[@]}"
    programs=$(cd "$root" && swift build --show-bin-path)
fi
require_packages "${server_packages[@]}" prometheus python3 curl
source "$root/deploy/scripts/platform.sh"

step "Starting PostgreSQL, RabbitMQ and the platform"
began=$SECONDS
choose_data_folder "$work"
claim_port; broker_metrics_port=$port
# RabbitMQ reads the names of its plugins from here instead of from the file of servers.sh.
export RABBITMQ_ENABLED_PLUGINS=rabbitmq_prometheus
rabbitmq_arguments="-rabbitmq_prometheus tcp_config [{port,$broker_metrics_port},{ip,\"127.0.0.1\"}]"
postgres_options=(-c fsync=off)
begin_rabbitmq
start_postgres
simulator_options=(UNKNOWN_DEVICES=reject)
start_simulator
# A client certificate beside the signing key: its end is a metric of its own.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/UID=com.example.shop.voip/CN=calls" \
    -keyout "$work/credentials/calls.key" -out "$work/credentials/calls.crt" 2>/dev/null
calls='{"name":"calls","certificate_file":"calls.crt","certificate_key_file":"calls.key","environments":["production","sandbox"],'
calls+='"apps":["shop"],"topics":["com.example.shop.voip"]}'
sed -i "s|]}\$|,$calls]}|" "$work/credentials/credentials.json"
finish_rabbitmq
# What the test causes must happen within seconds.
export WEBHOOK_INSECURE=true WEBHOOK_RETRY_SECONDS=0 HOUSEKEEPING_INTERVAL_SECONDS=1 HTTP_MAX_CONCURRENT_STREAMS=1
start_token_service
claim_port; other_url="http://127.0.0.1:$port"
start token-service-2 env HTTP_PORT="$port" POSTGRES_URL="$POSTGRES_URL" RABBITMQ_URL="$RABBITMQ_URL" "$programs/token-service"
wait_for token-service-2 "$started" 30 ready "$other_url"
dispatcher_options=(MAXIMUM_ATTEMPTS=2 APNS_CREDENTIALS_CHECK_SECONDS=1)
start_dispatcher 1
note "in $((SECONDS - began)) s"

step "Starting Prometheus"
claim_port; prometheus_url="http://127.0.0.1:$port"
target() { printf '"%s"' "${1#http://}"; }
cat >"$work/prometheus.yml" <<C
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [ "$root/deploy/monitoring/rules/*.yml" ]
scrape_configs:
  - { job_name: token-service, static_configs: [ { targets: [ $(target "$PUSH_URL"), $(target "$other_url") ] } ] }
  - { job_name: dispatcher, static_configs: [ { targets: [ $(target "${dispatcher_urls[0]}") ] } ] }
  - { job_name: rabbitmq, metrics_path: /metrics/per-object, static_configs: [ { targets: [ "127.0.0.1:$broker_metrics_port" ] } ] }
C
start prometheus prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" \
    --web.listen-address="${prometheus_url#http://}" --log.level=warn
wait_for prometheus "$started" 30 curl -fsS --max-time 2 "$prometheus_url/-/ready"

step "Every expression has data"
began=$SECONDS
foreground env PYTHONDONTWRITEBYTECODE=1 python3 "$root/Tests/Monitoring/scrape_test.py" \
    "$PUSH_URL" "$work/admin.key" "$SIMULATOR_URL" "$prometheus_url" "$POSTGRES_URL" \
    || fail "Prometheus does not have what the dashboards and the rules read (above)."
note "in $((SECONDS - began)) s"

step "promtool finds no fault in /metrics"
for address in "$PUSH_URL" "${dispatcher_urls[0]}"; do
    curl -fsS --max-time 5 "$address/metrics" >"$work/metrics.txt" || fail "$address/metrics gives no answer."
    if ! promtool check metrics <"$work/metrics.txt" >"$work/promtool.txt" 2>&1 || [ -s "$work/promtool.txt" ]; then
        sed 's/^/    /' "$work/promtool.txt" >&2
        fail "promtool complains about $address/metrics (above)."
    fi
done
