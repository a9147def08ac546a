"""Checks what promtool does not know: the metrics and labels of the rules exist, each alert has a page of the runbook, the team of that page
and two cases in the tests, each recorded series is read or tested, and each page has an alert or a reason for having none.
deploy/scripts/check-rules.sh runs it."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/scripts"))
from alert_rules import ROOT, documented_metrics, files, read, rules, selectors  # noqa: E402 (after the path)

TESTS = "Tests/Monitoring"
# The headings of docs/runbook/README.md.
TEAMS = {
    "Alarms for the platform on call": "platform",
    "Alarms for the owner of RabbitMQ": "rabbitmq",
    "Alarms for the owner of PostgreSQL": "postgresql",
    "Alarms for the owner of an app or of its Apple credentials": "app",
}
SEVERITIES = ("page", "ticket")
WITHOUT_ALERT = {
    "apns-throttles.md": "APNs throttles single devices, whose deliveries are tried again",
    "notification-did-not-arrive.md": "a person asks",
    "request-is-refused.md": "a person asks",
}
FOREIGN = re.compile(r"rabbitmq_|process_|up$")
faults = []


def fault(text):
    faults.append(text)


def teams():
    """The team of each page, by the heading under which docs/runbook/README.md lists it."""
    found, team = {}, None
    for line in read("docs/runbook/README.md").split("\n"):
        if line.startswith("## "):
            team = TEAMS.get(line[3:])
        elif team and (match := re.match(r"\| \[[^\]]+\]\(([\w-]+\.md)\)", line)):
            found[match[1]] = team
    return found


def cases():
    """Of each alert the kinds of its cases in the tests: True for one that expects the alert, False for one that expects none. And the
    recorded series whose values a case expects."""
    found, recorded = {}, set()
    for path in files(TESTS, ".test.yml"):
        text = re.sub(r"^\s*#.*\n", "", read(path), flags=re.M)
        recorded |= {selector.name for expression in re.findall(r"\bexpr: *['\"]?(.+)", text) for selector in selectors(expression)}
        for part in re.split(r"\n(?= *- (?:eval_time|name|interval): )", text):
            if match := re.search(r"\balertname: *(\w+)", part):
                found.setdefault(match[1], set()).add(re.search(r"\bexp_alerts:\s*\n\s*- ", part) is not None)
    return found, recorded


def check_recorded(all_rules, tested):
    """A recorded series has a case of its own, or a rule with cases reads it."""
    read_by_rules = {selector.name for rule in all_rules for selector in selectors(rule.expression)}
    for rule in all_rules:
        if rule.kind == "record":
            if not re.fullmatch(r"push:\w+(?::\w+)*", rule.name):
                fault(f"{rule.path}: the name of a recorded series begins with push:, and {rule.name} does not")
            if rule.name not in tested | read_by_rules:
                fault(f"{rule.path}: no rule reads {rule.name} and no case in {TESTS} expects its value; add one")


def check(all_rules, documented, team_of, tested):
    recorded = {rule.name for rule in all_rules if rule.kind == "record"}
    alerts = [rule for rule in all_rules if rule.kind == "alert"]
    for rule in all_rules:
        where = f"{rule.path}: {rule.name}"
        found = selectors(rule.expression)
        if not found:
            fault(f"{where}: found no metric in the expression; mend the expression, or alert_rules.py")
        for selector in found:
            name = selector.name
            if name in recorded or FOREIGN.match(name):
                continue
            if name not in documented:
                fault(f"{where}: docs/reference/metrics.md has no metric {name}")
                continue
            for label in sorted(set(selector.labels) - documented[name]):
                fault(f"{where}: the metric {name} has no label {label}; it has {', '.join(sorted(documented[name]))}")
    for rule in alerts:
        where = f"{rule.path}: {rule.name}"
        if not re.fullmatch(r"Push\w+", rule.name):
            fault(f"{where}: the name of an alert begins with Push")
        if rule.severity not in SEVERITIES:
            fault(f"{where}: severity is {rule.severity}; expected {' or '.join(SEVERITIES)}")
        if not rule.has_summary:
            fault(f"{where}: the annotation summary is missing")
        page = (rule.page or "").removeprefix("docs/runbook/")
        if not rule.page or not os.path.isfile(os.path.join(ROOT, rule.page)):
            fault(f"{where}: the annotation runbook is {rule.page}, which is no file; name a page of docs/runbook")
        elif rule.page == page or page not in team_of:
            fault(f"{where}: docs/runbook/README.md does not list {rule.page}; name a page that it lists")
        elif rule.team != team_of[page]:
            fault(f"{where}: team is {rule.team}; docs/runbook/README.md lists {page} for {team_of[page]}")
        for kind, words in ((True, "expects it to fire"), (False, "expects it to stay silent (exp_alerts: [])")):
            if kind not in tested.get(rule.name, set()):
                fault(f"{where}: no case in {TESTS} {words}; add one")
    for name in sorted(tested.keys() - {rule.name for rule in alerts}):
        fault(f"{TESTS}: there is no alert {name}; remove its cases, or correct the name")
    pages = {rule.page for rule in alerts}
    for page in sorted(team_of):
        has_alert = f"docs/runbook/{page}" in pages
        if has_alert and page in WITHOUT_ALERT:
            fault(f"docs/runbook/{page} has an alert; remove it from WITHOUT_ALERT in check_rules.py")
        elif not has_alert and page not in WITHOUT_ALERT:
            fault(f"docs/runbook/{page} has no alert; add one, or a reason to WITHOUT_ALERT in check_rules.py")
    return len(alerts)


def main():
    all_rules, documented, team_of = list(rules()), documented_metrics(), teams()
    tested, expected = cases()
    # A form that changed must not pass unread.
    for what, number, least in (("rules", len(all_rules), 50), ("metrics", len(documented), 100), ("pages", len(team_of), 30)):
        if number < least:
            fault(f"check_rules.py found only {number} {what}; has the form of the files changed?")
    alerts = check(all_rules, documented, team_of, tested)
    check_recorded(all_rules, expected)
    for line in faults:
        print(f"    {line}", file=sys.stderr)
    if faults:
        print(f"check_rules.py: {len(faults)} faults", file=sys.stderr)
        sys.exit(1)
    print(f"{alerts} alerts for {len(team_of) - len(WITHOUT_ALERT)} pages of the runbook; {len(WITHOUT_ALERT)} pages have none")


main()
