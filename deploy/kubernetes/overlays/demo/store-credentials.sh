#!/usr/bin/env bash
# Makes throw-away keys, certificates and passwords, and stores them as Secrets of this namespace. A Secret that exists stays as it is, so a
# second run changes nothing: the servers know the first one's passwords. The image has no curl, but openssl.
set -euo pipefail
account=${SERVICE_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
host=${KUBERNETES_SERVICE_HOST:?Kubernetes sets it} port=${KUBERNETES_SERVICE_PORT:?Kubernetes sets it}
name=kubernetes.default.svc
namespace=$(cat "$account/namespace")
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One Secret is one request. A Secret in two parts could hold keys of two runs, if the first run ends between them.
# store SECRET KEY=FILE…
store() {
    local secret=$1 pair separator='' answer
    shift
    {
        printf '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"%s"},"data":{' "$secret"
        for pair in "$@"; do
            printf '%s"%s":"%s"' "$separator" "${pair%%=*}" "$(base64 -w 0 <"${pair#*=}")"
            separator=,
        done
        printf '}}'
    } >"$folder/body"
    {
        printf 'POST /api/v1/namespaces/%s/secrets HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n' "$namespace" "$name"
        printf 'Authorization: Bearer %s\r\nContent-Type: application/json\r\n' "$(cat "$account/token")"
        printf 'Content-Length: %s\r\n\r\n' "$(wc -c <"$folder/body")"
        cat "$folder/body"
    } >"$folder/request"
    openssl s_client -quiet -connect "$host:$port" -servername "$name" -verify_hostname "$name" -verify_return_error \
        -CAfile "$account/ca.crt" <"$folder/request" >"$folder/answer" 2>"$folder/errors" || :
    answer=$(head -n 1 "$folder/answer" | tr -d '\r')
    case $answer in
        'HTTP/1.1 201 '*) printf 'made the Secret %s\n' "$secret" ;;
        'HTTP/1.1 409 '*) printf 'the Secret %s exists and stays as it is\n' "$secret" ;;
        *)
            printf 'Kubernetes (%s:%s) did not store the Secret %s: %s\n' "$host" "$port" "$secret" "${answer:-no answer}" >&2
            tail -n 3 "$folder/errors" "$folder/answer" >&2
            exit 1
            ;;
    esac
}

make-credentials "$folder/apns" apns-simulator
"${PUSHCTL:-program}" keys generate >"$folder/admin.key"
openssl rand -hex 24 >"$folder/postgresql"
openssl rand -hex 24 >"$folder/rabbitmq"
printf 'default_user = push\ndefault_pass = %s\n' "$(cat "$folder/rabbitmq")" >"$folder/account.conf"

store administrator "admin.key=$folder/admin.key"
store postgresql-service "password=$folder/postgresql"
store rabbitmq-token-service "password=$folder/rabbitmq" "account.conf=$folder/account.conf"
apns=()
for file in credentials.json AuthKey_DEMO123456.p8 AuthKey_DEMO123456.pub ca.crt simulator.crt simulator.key simulator-keys.json; do
    apns+=("$file=$folder/apns/$file")
done
store apns-credentials "${apns[@]}"
