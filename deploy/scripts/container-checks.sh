# What deploy/containers checks: the images, and the containers that docker-compose.yml makes of them. Sourced after container-images.sh.

services=(postgres rabbitmq apns-simulator token-service dispatcher)

# --- images -------------------------------------------------------------------------------------------------------------------------

check_image() {
    local image=$1 name="localhost/push/$1" user revision version commit program size packages
    commit=$(git -C "$root" rev-parse --short HEAD)
    user=$(image_field "$name" '{{.Config.User}}')
    [ "$user" = 10001:10001 ] || fail "the image $image runs as '$user', and not as 10001:10001."
    revision=$(image_field "$name" '{{index .Config.Labels "org.opencontainers.image.revision"}}')
    [ "$revision" = "$commit" ] || fail "the label revision of $image is '$revision', and not the commit $commit."
    version=$(image_field "$name" '{{index .Config.Labels "org.opencontainers.image.version"}}')
    must "the program of the image $image does not run without rights, on a read-only file system" in_image "$image" program --version
    grep -qF "$version ($commit)" "$work/output" || fail "$image --version says '$(cat "$work/output")', and not '$version ($commit)'."
    for program in curl openssl python3; do
        [ "$image $program" != 'pushctl openssl' ] || continue
        ! in_image "$image" bash -c "command -v $program" >/dev/null || fail "the image $image holds $program."
    done
    in_image "$image" cat /usr/local/share/push/sbom.cdx.json >"$work/$image.cdx.json" || fail "the image $image has no SBOM."
    # shellcheck disable=SC2016 # dpkg-query's own
    in_image "$image" dpkg-query -W -f '${Package} ${Version}\n' >"$work/$image.packages"
    must "the SBOM of $image is wrong" \
        "$tools/python" "$root/deploy/scripts/container-check-sbom.py" "$work/$image.cdx.json" "$work/$image.packages"
    packages=$(cat "$work/output")
    size=$(image_field "$name" '{{.Size}}' | megabytes)
    note "$image: $size MB, of which its program $(in_image "$image" stat -L -c %s /usr/local/bin/program | megabytes) MB; $packages"
}

image_field() { podman image inspect --format "$2" "$1"; }
megabytes() { awk '{ printf "%.0f", $1 / 1e6 }'; }

# in_image IMAGE COMMAND…: with as few rights as docker-compose.yml gives.
in_image() {
    local image=$1 command=$2
    shift 2
    podman run --rm --read-only --cap-drop all --security-opt no-new-privileges --network none \
        --entrypoint "$command" "localhost/push/$image" "$@"
}

# --- containers ---------------------------------------------------------------------------------------------------------------------

# compose COMMAND…: podman-compose with this run's project.
compose() {
    must "podman-compose $1 failed" "$tools/podman-compose" --project-name "$project" --file "$root/docker-compose.yml" "$@"
}

# The names of a service's containers.
containers_of() {
    podman ps --all --format '{{.Names}}' \
        --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1"
}

# start_services [SERVICE]…: makes the containers without dependencies. Podman does not start a killed container again if one that it
# depends on has ended, as the service credentials has.
start_services() {
    local name
    compose up -d --no-deps credentials
    name=$(containers_of credentials)
    if [ "$(podman wait "$name")" != 0 ]; then
        podman logs --tail 20 "$name" >&2
        fail "the service credentials failed (its last lines are above)."
    fi
    compose up -d --no-deps "${@:-${services[@]}}"
    wait_until_healthy "$@"
}

# wait_until_healthy [SERVICE]…: runs the health checks, which systemd does elsewhere.
wait_until_healthy() {
    local service name deadline=$((SECONDS + 120))
    for service in "${@:-${services[@]}}"; do
        for name in $(containers_of "$service"); do
            until podman healthcheck run "$name" >"$work/health" 2>&1; do
                if ((SECONDS >= deadline)); then
                    podman logs --tail 20 "$name" >&2
                    cat "$work/health" >&2
                    fail "$name was not healthy after two minutes (its last lines are above)."
                fi
                sleep 0.5
            done
        done
    done
}

# Every grace period of docker-compose.yml is longer than the default of SHUTDOWN_DEADLINE_SECONDS.
check_grace_periods() {
    local deadline
    deadline=$(sed -n 's/^| `SHUTDOWN_DEADLINE_SECONDS` | `\([0-9]*\)`.*/\1/p' "$root/docs/reference/settings.md" | sort -n | tail -n 1)
    must "a grace period of docker-compose.yml is too short" "$tools/python" -c '
import sys, yaml
for name, service in yaml.safe_load(open(sys.argv[1]))["services"].items():
    grace = service.get("stop_grace_period", "10s")
    if int(grace.removesuffix("s")) <= int(sys.argv[2]):
        sys.exit(f"stop_grace_period of {name} is {grace}, and not longer than {sys.argv[2]} s")
' "$root/docker-compose.yml" "$deadline"
}

check_containers() {
    local service name number check
    for service in apns-simulator token-service dispatcher; do
        check=$(image_field "localhost/push/$service" '{{index .Config.Healthcheck.Test 1}}')
        for name in $(containers_of "$service"); do
            [ "$(podman exec "$name" id -u)" = 10001 ] || fail "$name does not run as the user 10001."
            ! podman exec --user 0 "$name" touch /usr/local/file 2>/dev/null || fail "the file system of $name is not read-only."
            podman exec "$name" grep -q '^CapBnd:[[:space:]]*0*$' /proc/1/status || fail "$name may get capabilities."
            podman exec "$name" grep -q '^NoNewPrivs:[[:space:]]*1$' /proc/1/status || fail "$name may get new privileges."
            must "the image's own health check fails in $name" podman exec "$name" sh -c "$check"
        done
    done
    number=$(containers_of dispatcher | wc -l)
    [ "$number" = 2 ] || fail "docker-compose.yml started $number dispatchers, and not two."
    must "the simulator's certificate ends within a year" podman run --rm --network none --volume "${project}_credentials:/credentials:ro" \
        --entrypoint openssl localhost/push/pushctl x509 -in /credentials/simulator.crt -noout -checkend $((365 * 86400))
    note "user 10001, no capabilities, a read-only file system, two dispatchers, a certificate for more than a year"
}

# The demonstration in a container, then the commands that it prints, on this machine.
demonstrate() {
    local began=$SECONDS
    # Docker's own "run" enables the profile of the service by itself.
    COMPOSE_PROFILES=tools compose run --rm -T demo
    sed -n '/^export PUSH_URL=/,$p' "$work/output" >"$work/commands"
    [ -s "$work/commands" ] || fail "the demonstration printed no commands."
    # shellcheck disable=SC2016 # the inner shell's
    must "a notification that was sent from outside the containers was not completed" \
        bash -c 'set -e; source "$1"; case $status in *\"state\":\"completed\"*) ;; *) exit 1 ;; esac' - "$work/commands"
    note "the demonstration and the README's first notification, in $((SECONDS - began)) s"
}

# Kills the first process of each container of a service, as a crash does. Podman's restart policy starts it again.
kill_containers() {
    local name before after began=$SECONDS
    for name in $(containers_of "$1"); do
        before=$(podman inspect --format '{{.State.Pid}}' "$name")
        kill -KILL "$before"
        until after=$(podman inspect --format '{{.State.Pid}}' "$name") && [ "$after" != 0 ] && [ "$after" != "$before" ]; do
            ((SECONDS - began < 60)) || fail "Podman did not start $name again."
            sleep 0.2
        done
    done
    wait_until_healthy
    note "$1: all healthy again after $((SECONDS - began)) s"
}

# The jobs in the queue of the lane now.
waiting_jobs() {
    podman exec "$(containers_of rabbitmq)" rabbitmqctl --quiet list_queues name messages | awk '$1 == "push.jobs.now" { print $2 }'
}

# expect_waiting COUNT WHEN
expect_waiting() {
    local deadline=$((SECONDS + 20))
    until [ "$(waiting_jobs)" = "$1" ]; do
        ((SECONDS < deadline)) || fail "$2, RabbitMQ holds '$(waiting_jobs)' jobs, and not $1."
        sleep 0.5
    done
}

# Notifications wait in RabbitMQ while every container is removed and made anew: only the volumes remain.
recreate_containers() {
    local count=20 device id ids=() deadline
    # The addresses and the key of the last demonstration.
    source <(grep '^export ' "$work/commands")
    device=$(grep -o '/v1/devices/[0-9a-f]*' "$work/commands" | head -n 1)
    compose stop dispatcher
    while [ ${#ids[@]} -lt "$count" ]; do
        id=$(api POST /v1/apps/shop/notifications -d '{"to":{"user":"ada"},"payload":{"aps":{"alert":"This notification waits"}}}' \
            | sed 's/.*"id":"\([^"]*\)".*/\1/') || fail "the token service did not accept a notification while no dispatcher runs."
        ids+=("$id")
    done
    expect_waiting "$count" "While no dispatcher runs"
    compose down
    start_services rabbitmq apns-simulator
    expect_waiting "$count" "After its container was made anew"
    # The simulator keeps its devices in memory.
    curl -fsS -X PUT "$SIMULATOR_URL$device" -d '{"environment":"production","state":"installed"}' >/dev/null
    start_services
    deadline=$((SECONDS + 60))
    for id in "${ids[@]}"; do
        until api GET "/v1/apps/shop/notifications/$id" | grep -q '"state":"completed".*"accepted":1'; do
            ((SECONDS < deadline)) || fail "the waiting notification $id was not sent: $(api GET "/v1/apps/shop/notifications/$id")"
            sleep 0.5
        done
    done
    note "$count notifications waited in RabbitMQ, and then reached the simulator"
}

# api METHOD PATH [OPTION of curl]…
api() {
    curl -fsS --max-time 10 -X "$1" "$PUSH_URL$2" -H "Authorization: Bearer $PUSH_KEY" -H 'Content-Type: application/json' "${@:3}"
}

# Each program ends by itself, with exit code 0, before Podman kills it.
stop_containers() {
    local service name code began=$SECONDS
    for service in dispatcher token-service apns-simulator; do
        compose stop "$service"
        for name in $(containers_of "$service"); do
            code=$(podman inspect --format '{{.State.ExitCode}}' "$name")
            [ "$code" = 0 ] || fail "$name ended with the code $code when it was asked to stop."
        done
    done
    compose down --volumes
    note "every program ended by itself, all in $((SECONDS - began)) s"
}
