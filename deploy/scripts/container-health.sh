#!/usr/bin/env bash
# health-check PORT PATH: prints this container's answer to GET PATH, and succeeds if it is 200. The images hold no HTTP client.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/${1:?usage: health-check PORT PATH}"
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "${2:?usage: health-check PORT PATH}" >&3
answer=$(cat <&3)
printf '%s\n' "$answer"
[[ $answer == 'HTTP/1.1 200 '* ]]
