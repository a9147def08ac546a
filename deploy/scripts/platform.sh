# Starts the platform's own programs against the servers of servers.sh. Sourced; needs $programs, $RABBITMQ_URL and, for the token service, $POSTGRES_URL.
# A caller may set arrays: simulator_options and dispatcher_options (settings), simulator_prefix and dispatcher_prefix (words before the program).

platform_ids=() dispatcher_urls=() dispatcher_ids=()

ready() { curl -fsS --max-time 2 "$1/readyz"; }

# Sets SIMULATOR_URL, production_port and sandbox_port, and the ports for channels: production_channels_port and sandbox_channels_port.
start_simulator() {
    local credentials="$work/credentials"
    "$root/deploy/scripts/make-credentials.sh" "$credentials" || fail "openssl could not make the throw-away keys and certificates."
    claim_port; production_port=$port
    claim_port; sandbox_port=$port
    claim_port; production_channels_port=$port
    claim_port; sandbox_channels_port=$port
    claim_port; SIMULATOR_URL="http://127.0.0.1:$port"
    start apns-simulator env PRODUCTION_PORT="$production_port" SANDBOX_PORT="$sandbox_port" CONTROL_PORT="$port" \
        PRODUCTION_MANAGEMENT_PORT="$production_channels_port" SANDBOX_MANAGEMENT_PORT="$sandbox_channels_port" \
        TLS_CERTIFICATE_FILE="$credentials/simulator.crt" TLS_KEY_FILE="$credentials/simulator.key" KEYS_FILE="$credentials/simulator-keys.json" \
        ${simulator_options[@]+"${simulator_options[@]}"} ${simulator_prefix[@]+"${simulator_prefix[@]}"} "$programs/apns-simulator"
    platform_ids+=("$started")
    wait_for apns-simulator "$started" 20 curl -fsS --max-time 2 "$SIMULATOR_URL/healthz"
}

# Sets PUSH_URL and makes $work/admin.key.
start_token_service() {
    (umask 077 && "$programs/pushctl" keys generate >"$work/admin.key")
    claim_port; PUSH_URL="http://127.0.0.1:$port"
    start token-service env HTTP_PORT="$port" POSTGRES_URL="$POSTGRES_URL" RABBITMQ_URL="$RABBITMQ_URL" BOOTSTRAP_KEY_FILE="$work/admin.key" "$programs/token-service"
    platform_ids+=("$started")
    wait_for token-service "$started" 30 ready "$PUSH_URL"
}

# start_dispatcher NUMBER: adds to dispatcher_urls and dispatcher_ids.
start_dispatcher() {
    local credentials="$work/credentials"
    claim_port
    start "dispatcher-$1" env OPERATIONS_PORT="$port" INSTANCE="dispatcher-$1" RABBITMQ_URL="$RABBITMQ_URL" \
        APNS_CREDENTIALS_FILE="$credentials/credentials.json" APNS_CA_FILE="$credentials/ca.crt" \
        APNS_PRODUCTION_URL="https://localhost:$production_port" APNS_SANDBOX_URL="https://localhost:$sandbox_port" \
        APNS_PRODUCTION_CHANNELS_URL="https://localhost:$production_channels_port" \
        APNS_SANDBOX_CHANNELS_URL="https://localhost:$sandbox_channels_port" \
        ${dispatcher_options[@]+"${dispatcher_options[@]}"} ${dispatcher_prefix[@]+"${dispatcher_prefix[@]}"} "$programs/dispatcher"
    platform_ids+=("$started")
    dispatcher_ids+=("$started")
    dispatcher_urls+=("http://127.0.0.1:$port")
    wait_for "dispatcher-$1" "$started" 30 ready "http://127.0.0.1:$port"
}
