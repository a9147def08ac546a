#!/usr/bin/env bash
# Installs the client libraries that are not ours into a Python environment of the checkout's own (.push/python-clients), for IndependentClientTests, ForeignServerTests and TraceTests.
# Prints the path of its Python. What stands there already, in the wanted versions, is kept.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
wanted="$root/Tests/APNsSimulatorTests/Clients/requirements.txt"
folder="$root/.push/python-clients"
fail() { printf 'python-clients: %s\n' "$*" >&2; exit 1; }

python3 -c 'import venv, ensurepip' 2>/dev/null || fail "Python 3 with its venv module is missing: install the packages python3 and python3-venv."
mkdir -p "$root/.push"
# One run at a time: a second one finds the first one's work.
exec 9>"$root/.push/python-clients.lock"
flock 9
if ! cmp -s "$wanted" "$folder/installed"; then
    rm -rf "$folder"
    python3 -m venv "$folder" || fail "'python3 -m venv' could not make $folder."
    log=$(mktemp)
    if ! "$folder/bin/pip" install --disable-pip-version-check --quiet --no-deps --requirement "$wanted" >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        rm -rf "$folder" "$log"
        fail "pip could not get the client libraries from the Python package index (above); to do without these tests, say --no-python-clients."
    fi
    rm -f "$log"
    cp "$wanted" "$folder/installed"
fi
printf '%s\n' "$folder/bin/python"
