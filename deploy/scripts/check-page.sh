#!/usr/bin/env bash
# Tries the simulator's page in a headless Chromium: clicks, keyboard, search, dark mode, a phone's width, Live Activities, channels, thousands of devices.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-page.sh [PROGRAMS] [--help]

  PROGRAMS   the folder of the built programs; without it the simulator is built (debug)

The screenshots go to this run's folder, or to the folder that PUSH_TEST_SCREENSHOTS names.
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

begin_run page
require_packages chromium fonts-liberation python3 curl openssl ca-certificates util-linux
if [ -z "$programs" ]; then
    require_swift
    require_packages "${library_packages[@]}"
    build "the simulator (debug; the first time takes minutes)" --product apns-simulator
    programs=$(cd "$root" && swift build --show-bin-path)
fi
source "$root/deploy/scripts/platform.sh"
pictures=${PUSH_TEST_SCREENSHOTS:-$work/screenshots}
mkdir -p "$pictures"

step "Trying the simulator's page in Chromium"
began=$SECONDS
claim_port; management_port=$port
simulator_options=(PRODUCTION_MANAGEMENT_PORT="$management_port" ACTIVITY_BUDGET_PER_HOUR=3)
start_simulator
foreground env PYTHONDONTWRITEBYTECODE=1 python3 "$root/Tests/Page/page_test.py" \
    "$SIMULATOR_URL" "https://localhost:$production_port" "https://localhost:$management_port" "$work/credentials" "$work" "$pictures" \
    || fail "the page does not do what it promises (above); screenshots are in $pictures."
note "in $((SECONDS - began)) s; $(find "$pictures" -name '*.png' | wc -l) screenshots"
