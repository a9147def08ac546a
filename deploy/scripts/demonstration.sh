#!/usr/bin/env bash
# The service `demo` of docker-compose.yml: the demonstration, then a key and commands to paste. PUSH_URL and PUSH_KEY_FILE are pushctl's settings.
#   demonstration.sh SIMULATOR_URL SHOWN_PUSH_URL SHOWN_SIMULATOR_URL      the latter two as the person who pastes reaches them
set -euo pipefail
simulator=${1:?usage: demonstration.sh SIMULATOR_URL SHOWN_PUSH_URL SHOWN_SIMULATOR_URL}
here=$(dirname "${BASH_SOURCE[0]}")
pushctl=${PUSHCTL:-$here/program} readme=${README:-$here/README.md}
"$pushctl" demo --simulator "$simulator" --next "Next, in a browser: $3 shows these lock screens, $2/docs the API."
key=$("$pushctl" keys create --app shop --name "demo $(date -u +%FT%TZ)" --scopes devices,send,read --quiet)
printf '\nRegister a device, send to its user, and see what became of it:\n\n'
"$here/first-notification.sh" "$readme" "$2" "$3" "$key"
