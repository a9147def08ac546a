#!/usr/bin/env bash
# Writes the handbook's reference, docs/reference, from what the programs print: their tables of settings, metrics, log keys, errors and events, and
# the API's description.
#   make-reference.sh PROGRAMS [--check]      PROGRAMS: the folder of the built programs; --check: only compare, exit code 1 if a page is old
set -euo pipefail
programs=${1:?usage: make-reference.sh PROGRAMS [--check]}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made" "$made.diff"' EXIT

# page NAME TITLE TEXT, then for each section: HEADING PROGRAM ARGUMENTS…, separated by --
page() {
    local file="$made/$1.md" title=$2 text=$3
    shift 3
    printf '# %s\n\n<!-- Written by deploy/scripts/make-reference.sh from the tables in the code. Change those. -->\n\n%s\n' "$title" "$text" >"$file"
    while [ $# -gt 0 ]; do
        local heading=$1 command=()
        shift
        while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1"); shift; done
        [ $# = 0 ] || shift
        [ -z "$heading" ] || printf '\n## %s\n' "$heading" >>"$file"
        { printf '\n'; "$programs/${command[0]}" "${command[@]:1}"; } >>"$file"
    done
}

page settings Settings "Settings are environment variables. A program checks them at its start: a wrong one ends it with a sentence that names
the variable, what was found and what was expected. A misspelt one (\`PREFECTH_NOW\`) is logged with the setting that was
meant." \
    token-service token-service reference settings -- dispatcher dispatcher reference settings -- apns-simulator apns-simulator reference
page metrics Metrics "The token service and the dispatcher serve \`/metrics\` for Prometheus. Names end in their unit, and counters in \`_total\`." \
    token-service token-service reference metrics -- dispatcher dispatcher reference metrics \
    -- "connections to RabbitMQ" token-service reference broker-metrics -- "every program" token-service reference process-metrics
page log-keys "Keys of log lines" "Each program writes its log to standard error, one JSON object a line: \`ts\`, \`level\`, \`logger\`, \`msg\`, and these keys.
Any line may also have \`repeated\`, \`trace.id\`, \`error\` and \`error.type\`. Lines about settings have \`setting\`,
\`file.path\` and \`file.mode\`. No line holds a token, a key or a payload." \
    token-service token-service reference log-keys -- dispatcher dispatcher reference log-keys \
    -- "connections to RabbitMQ" token-service reference broker-log-keys
page errors "Error codes" "The API answers an error with a problem document (RFC 9457): \`type\`, \`title\`, \`status\`, \`code\`, \`detail\`,
\`retryable\` (the last column), and, for faults of the body, \`errors\` with a pointer to each." \
    "" token-service reference errors
page events Events "Every event is a CloudEvents 1.0 document. Outcomes (\`delivery.…\`) always go to the exchange \`push.outcomes\`. The
others go there if the app's \`event_stream\` names them. Webhooks get the events that they ask for, whatever
\`event_stream\` says; a ping is \`push.webhook.ping.v1\`." \
    "" token-service reference events
page answers "Answers of APNs" "What the dispatcher does when APNs answers with a status other than 200. An unknown reason goes by its status.
The last wait repeats. Waits vary by ±25 %, and are then drawn from the two neighbouring queues (1, 5, 30, 120, 600,
900 s), so one may be several times shorter or longer; for the lane \`now\` never longer. A row without an attempt used
up is reported as \`misconfigured\`. Before \`BadDeviceToken\` ends a delivery to a token that APNs never accepted, the
dispatcher tries the other environment once." \
    "" dispatcher reference answers

# One field a line, so that a change of the API shows as one.
printf '%s\n' "$("$programs/token-service" openapi)" >"$made/openapi.json"

if [ "${2-}" = --check ]; then
    status=0
    for page in "$made"/*; do
        name=docs/reference/$(basename "$page")
        diff -U 2 --label "$name" "$root/$name" --label "what the programs print" "$page" >>"$made.diff" || status=1
    done
    [ "$status" = 0 ] || {
        head -n 100 "$made.diff" >&2
        lines=$(wc -l <"$made.diff")
        [ "$lines" -le 100 ] || echo "… and $((lines - 100)) lines more" >&2
        echo "make-reference: docs/reference is not what the programs print; mend it with: deploy/scripts/make-reference.sh .build/debug" >&2
        exit 1
    }
else
    mkdir -p "$root/docs/reference"
    cp "$made"/* "$root/docs/reference/"
fi
