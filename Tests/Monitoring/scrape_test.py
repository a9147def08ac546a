"""Causes what the metrics count and asks a real Prometheus for every expression of the dashboards and every series that the rules read:
scrape_test.py TOKEN_SERVICE ADMIN_KEY_FILE SIMULATOR PROMETHEUS DATABASE. deploy/scripts/check-scrape.sh runs it.

A counter that a rule reads with increase() alone must be there before anything is caused, or the rule would not see its first event.

The selectors of a rule must have data, with ranges and offsets left out: an alert that does not fire has none itself. An expression of a
dashboard must have data as a whole, for each value of a variable with fixed values, and for one value at least of a variable that Prometheus
fills.
"""

import itertools
import json
import os
import re
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/scripts"))
from alert_rules import files, read, rules, selectors  # noqa: E402 (after the path)
from scrape_load import World, cause_everything, traffic, until  # noqa: E402 (after the path)

EXCEPTIONS = "Tests/Monitoring/without-data.txt"
# Grafana makes it from the scrape interval and the time shown. Five minutes reach back to the first scrape here.
RATE_INTERVAL = "5m"
DEADLINE = 30


class Prometheus:
    def __init__(self, url):
        self.url = url

    def get(self, path, **parameters):
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"Prometheus refuses {parameters}: {error.read().decode()}") from error

    def has_number(self, expression):
        return any(sample["value"][1] != "NaN" for sample in self.get("query", query=expression)["result"])

    def values_of(self, query):
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()
        return sorted({series["metric"][label] for series in self.get("query", query=metric)["result"] if label in series["metric"]})


class Expected:
    """An expression that must have data: one of its forms at least, where a variable has several values."""

    def __init__(self, where, forms):
        self.where, self.forms = where, forms


def filled(expression, values):
    for name, value in values.items():
        expression = expression.replace(f"${name}", value)
    return expression


def of_dashboards(prometheus):
    for path in files("deploy/monitoring/dashboards", ".json"):
        dashboard = json.loads(read(path))
        fixed, found = {}, {}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "custom":
                fixed[variable["name"]] = variable["query"].split(",")
            elif variable["type"] == "query":
                found[variable["name"]] = prometheus.values_of(variable["query"]["query"])
                if not found[variable["name"]]:
                    yield Expected(f"{dashboard['title']}: the variable {variable['name']}", [variable["query"]["query"]])
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
                used = {name for name in (*fixed, *found) if f"${name}" in expression}
                for values in itertools.product(*([(name, value) for value in fixed[name]] for name in fixed if name in used)):
                    form = filled(expression, dict(values))
                    choices = itertools.product(*([(name, value) for value in found[name]] for name in found if name in used))
                    yield Expected(f"{dashboard['title']}: {panel['title']}", [filled(form, dict(choice)) for choice in choices])


def of_rules():
    for rule in rules():
        for selector in selectors(rule.expression):
            yield Expected(rule.name, [selector.text])
        if rule.kind == "record":
            yield Expected(rule.name, [rule.name])


def read_with_increase_alone():
    """Counters of which the rules do not ask whether their series is new; platform.yml says why some do."""
    for rule in rules():
        for selector in re.findall(r"\bincrease\(([^[]+)\[", rule.expression):
            if f"{selector} offset " not in rule.expression:
                yield selector


def exceptions():
    """Each selector that has no data here, with the reason."""
    found = {}
    for line in read(EXCEPTIONS).split("\n"):
        if line and not line.startswith("#"):
            selector, _, reason = line.partition("  # ")
            found[selector.strip()] = reason
    return found


def without_data(prometheus, expected, known):
    """The expressions that still have no data, each with its places; and the exceptions that they read."""
    missing, excused = {}, set()
    for one in expected:
        exceptional = {selector.text for form in one.forms for selector in selectors(form)} & known.keys()
        excused |= exceptional
        if not exceptional and not any(prometheus.has_number(form) for form in one.forms):
            missing.setdefault(" ".join(one.forms[0].split()) if one.forms else "none", set()).add(one.where)
    return missing, excused


def main():
    push, key_file, simulator, url, database = sys.argv[1:]
    with open(key_file, encoding="utf-8") as file:
        world = World(push, file.read().strip(), simulator, database)
    prometheus, known = Prometheus(url), exceptions()
    for selector in sorted(set(read_with_increase_alone())):
        until(f"a process that has just started does not serve {selector}", lambda: prometheus.has_number(selector))
    cause_everything(world)
    deadline = time.monotonic() + DEADLINE
    while True:
        # Something must move between two scrapes, or a share has no number.
        traffic(world)
        expected = [*of_dashboards(prometheus), *of_rules()]
        missing, excused = without_data(prometheus, expected, known)
        if not missing or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    faults = [f"no data: {expression} ({', '.join(sorted(places))})" for expression, places in sorted(missing.items())]
    faults += [f"{EXCEPTIONS}: nothing reads {selector}; remove it" for selector in sorted(known.keys() - excused)]
    faults += [f"{EXCEPTIONS}: {selector} has data; remove it" for selector in sorted(excused) if prometheus.has_number(selector)]
    faults += [f"{EXCEPTIONS}: {selector} has no reason" for selector in sorted(known) if not known[selector]]
    evaluated = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    faults += [f"Prometheus cannot evaluate {rule['name']}: {rule.get('lastError')}" for rule in evaluated if rule["health"] != "ok"]
    if len(evaluated) != len(list(rules())):
        faults.append(f"Prometheus has {len(evaluated)} rules, and the files have {len(list(rules()))}")
    for line in faults:
        print(f"    {line}", file=sys.stderr)
    if faults:
        sys.exit(1)
    forms = {form for one in expected for form in one.forms}
    print(f"    {len(forms)} expressions, {len(known)} exceptions; {len(evaluated)} rules evaluated")


main()
