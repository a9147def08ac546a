#!/usr/bin/env bash
# Prints how to send a first notification: settings to paste, and the README's commands, which are written there and nowhere else.
#   first-notification.sh README PUSH_URL SIMULATOR_URL PUSH_KEY
set -euo pipefail
readme=${1:?usage: first-notification.sh README PUSH_URL SIMULATOR_URL PUSH_KEY}
commands=$(awk '/^## /{ inside = ($0 == "## Send your first notification") } /^```/{ if (inside && fenced) exit; fenced = inside; next } inside && fenced' "$readme")
[ -n "$commands" ] || { echo "first-notification.sh: $readme has no commands under \"Send your first notification\"" >&2; exit 1; }
printf 'export PUSH_URL=%s SIMULATOR_URL=%s\nexport PUSH_KEY=%s\n\n%s\n' "$2" "$3" "$4" "$commands"
