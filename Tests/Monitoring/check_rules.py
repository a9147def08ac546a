"""Checks what promtool does not know: the metrics and labels of the rules exist, each alert has a page of the runbook, the team of that page and
two cases in the tests, and each page has an alert or a reason for having none. deploy/scripts/check-rules.sh runs it."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = "deploy/monitoring/rules"
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
    "broker-queues-dead.md": "no metric has the members of a queue",
    "notification-did-not-arrive.md": "a person asks",
    "request-is-refused.md": "a person asks",
}
# Labels that Prometheus adds.
SCRAPED = {"job", "instance"}
FOREIGN = re.compile(r"rabbitmq_|process_|up$")
KEYWORDS = {"and", "or", "unless", "bool", "by", "on", "without", "ignoring", "group_left", "group_right", "offset"}
faults = []


def fault(text):
    faults.append(text)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files(folder, ending):
    return sorted(f"{folder}/{name}" for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(ending))


def metrics():
    """Each documented metric with its labels; a histogram under the names of its three kinds of series."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \|", read("docs/reference/metrics.md"), re.M):
        labels = set(re.findall(r"`(\w+)`", labels)) | SCRAPED
        if kind == "histogram":
            found |= {name + "_bucket": labels | {"le"}, name + "_sum": labels, name + "_count": labels}
        else:
            found[name] = labels
    return found


def teams():
    """The team of each page, by the heading under which docs/runbook/README.md lists it."""
    found, team = {}, None
    for line in read("docs/runbook/README.md").split("\n"):
        if line.startswith("## "):
            team = TEAMS.get(line[3:])
        elif team and (match := re.match(r"\| \[[^\]]+\]\(([\w-]+\.md)\)", line)):
            found[match[1]] = team
    return found


class Rule:
    def __init__(self, path, text):
        self.path = path
        self.kind, self.name = re.match(r" *- (alert|record): (\S+)", text).groups()
        block = re.search(r"\n( *)expr: *(\|?)(.*(?:\n\1 +.*)*)", text)
        self.expression = re.sub(r"#.*", "", block[3])
        self.severity, self.team, self.page = (
            match[1] if (match := re.search(rf"\b{field}: *([\w./-]+)", text)) else None for field in ("severity", "team", "runbook")
        )
        self.has_summary = re.search(r"\bsummary: *\S", text) is not None

    def selectors(self):
        """The name of each metric with the labels that its selector compares."""
        text = re.sub(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", self.expression)
        text = re.sub(r"'[^']*'|\"[^\"]*\"", '""', text)
        text = re.sub(r"\[[^\]]*\]|\boffset\s+-?\w+", " ", text)
        for name, labels in re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\()\b(?:\s*\{([^}]*)\})?", re.sub(r"\b\w+\s*\(", "(", text)):
            if name not in KEYWORDS:
                yield name, re.findall(r"(\w+)\s*(?:=|!)", labels)


def rules():
    for path in files(RULES, ".yml"):
        text = re.sub(r"^\s*#.*\n", "", read(path), flags=re.M)
        for part in re.split(r"\n(?= *- (?:alert|record|name): )", text):
            if re.match(r" *- (alert|record): ", part):
                yield Rule(path, part)


def cases():
    """Of each alert the kinds of its cases in the tests: True for one that expects the alert, False for one that expects none."""
    found = {}
    for path in files(TESTS, ".test.yml"):
        text = re.sub(r"^\s*#.*\n", "", read(path), flags=re.M)
        for part in re.split(r"\n(?= *- (?:eval_time|name|interval): )", text):
            if match := re.search(r"\balertname: *(\w+)", part):
                found.setdefault(match[1], set()).add(re.search(r"\bexp_alerts:\s*\n\s*- ", part) is not None)
    return found


def check(all_rules, documented, team_of, tested):
    recorded = {rule.name for rule in all_rules if rule.kind == "record"}
    alerts = [rule for rule in all_rules if rule.kind == "alert"]
    for rule in all_rules:
        where = f"{rule.path}: {rule.name}"
        selectors = list(rule.selectors())
        if not selectors:
            fault(f"{where}: found no metric in the expression; mend the expression, or check_rules.py")
        for name, labels in selectors:
            if name in recorded or FOREIGN.match(name):
                continue
            if name not in documented:
                fault(f"{where}: docs/reference/metrics.md has no metric {name}")
                continue
            for label in sorted(set(labels) - documented[name]):
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
    all_rules, documented, team_of = list(rules()), metrics(), teams()
    # A form that changed must not pass unread.
    for what, number, least in (("rules", len(all_rules), 50), ("metrics", len(documented), 100), ("pages", len(team_of), 30)):
        if number < least:
            fault(f"check_rules.py found only {number} {what}; has the form of the files changed?")
    alerts = check(all_rules, documented, team_of, cases())
    for line in faults:
        print(f"    {line}", file=sys.stderr)
    if faults:
        print(f"check_rules.py: {len(faults)} faults", file=sys.stderr)
        sys.exit(1)
    print(f"{alerts} alerts for {len(team_of) - len(WITHOUT_ALERT)} pages of the runbook; {len(WITHOUT_ALERT)} pages have none")


main()
