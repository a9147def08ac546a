#!/usr/bin/env bash
# Checks Prometheus' rules and Grafana's dashboards: their form, their tests, and that the metrics and pages which they name exist.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-rules.sh [--help]

Checks deploy/monitoring/rules with promtool, and runs the cases of Tests/Monitoring. Checks that every metric and every page of the runbook that
a rule or a dashboard names exists, and that the thresholds of the dashboards are those of the alerts. Starts no server and builds nothing.
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

begin_run rules
require_packages prometheus python3
failures=0
complain() { printf '%s    %s%s\n' "$red" "$*" "$plain" >&2; failures=$((failures + 1)); }

# run COMMAND…: its output goes to a file, and is shown if it fails.
run() {
    foreground "$@" >"$work/output" 2>&1 && return
    sed 's/^/    /' "$work/output" >&2
    return 1
}

step "Prometheus reads the rules"
run promtool check rules "$root"/deploy/monitoring/rules/*.yml || complain "promtool refuses a rule of deploy/monitoring/rules (above): mend it."

step "The rules name metrics and pages that exist"
if run env PYTHONDONTWRITEBYTECODE=1 python3 "$root/Tests/Monitoring/check_rules.py"; then
    note "$(cat "$work/output")"
else
    complain "the rules, their tests and the handbook do not agree (above)."
fi

step "The dashboards are what the definitions and the rules make, and name what exists"
run "$root/deploy/scripts/make-dashboards.py" --check || complain "a dashboard is not up to date (above)."
if run env PYTHONDONTWRITEBYTECODE=1 python3 "$root/Tests/Monitoring/check_dashboards.py"; then
    note "$(cat "$work/output")"
else
    complain "the dashboards, the rules and the handbook do not agree (above)."
fi

step "Each alert fires and stays silent as its cases say"
began=$SECONDS
if run promtool test rules "$root"/Tests/Monitoring/*.test.yml; then
    note "in $((SECONDS - began)) s"
else
    complain "an alert does not do what its case says (above): exp is the case's, got is the rule's."
fi

[ "$failures" = 0 ] || fail "the rules or the dashboards are not in order: $failures of 5 checks failed."
