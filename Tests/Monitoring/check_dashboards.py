"""Checks the dashboards: their form, that metrics, labels, variables and pages of the runbook exist, that each alert is linked, and that each
threshold is the one of the alert that the panel links to. deploy/scripts/check-rules.sh runs it."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/scripts"))
from alert_rules import ROOT, comparison, documented_metrics, files, read, rules, selectors  # noqa: E402 (after the path)

FOLDER = "deploy/monitoring/dashboards"
# Grafana's names of units (its documentation, "Standard options") that the panels use.
UNITS = {"none", "s", "bytes", "ops", "reqps", "percentunit"}
KINDS = {"timeseries", "stat", "row"}
# Version 39 of the form is that of Grafana 11; later versions read it.
SCHEMA = 39
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
FOREIGN = re.compile(r"rabbitmq_\w+$|ALERTS$")
OWN = {"datasource", "runbook", "__rate_interval"}
faults = []


def fault(where, text):
    faults.append(f"{where}: {text}")


def check_place(where, panel, taken):
    place = panel["gridPos"]
    if not (0 <= place["x"] and place["x"] + place["w"] <= COLUMNS and place["h"] > 0 and place["w"] > 0):
        fault(where, f"the place {place} is not within {COLUMNS} columns")
    for column in range(place["x"], place["x"] + place["w"]):
        for line in range(place["y"], place["y"] + place["h"]):
            if (column, line) in taken:
                fault(where, f"it lies over {taken[column, line]}")
                return
            taken[column, line] = panel["title"]


def check_expression(where, expression, variables, series):
    for name in re.findall(r"\$\{?(\w+)", expression):
        if name not in variables | OWN:
            fault(where, f"the dashboard has no variable {name}")
    found = selectors(expression)
    if not found:
        fault(where, f"found no metric in {expression}")
    for selector in found:
        if selector.name not in series and not FOREIGN.match(selector.name):
            fault(where, f"there is no metric {selector.name}")
        for label in set(selector.labels) - series.get(selector.name, set(selector.labels)):
            fault(where, f"the metric {selector.name} has no label {label}")


def expected_steps(rule):
    """Colours and values: well below or above the alert's value. An equal value has the colour of the step (Grafana, "Thresholds")."""
    _, operator, value = comparison(rule.expression)
    colour = {"page": "red", "ticket": "orange"}[rule.severity]
    if operator == "==":
        return [(colour, None), ("green", 1)] if value == 0 else [("green", None), (colour, value)]
    return [("green", None), (colour, value)] if operator in (">", ">=") else [(colour, None), ("green", value)]


def check_alerts(where, panel, alerts):
    """The links lead to the pages of their alerts, and the thresholds are those of the first one."""
    linked = []
    for link in panel["links"]:
        name = link["title"].removeprefix("Runbook: ")
        if name not in alerts:
            fault(where, f"there is no alert {name}")
            continue
        linked.append(alerts[name])
        if link["url"] != "${runbook}/" + alerts[name].page.removeprefix("docs/runbook/"):
            fault(where, f"the link of {name} leads to {link['url']}, and its page is {alerts[name].page}")
    steps = [(step["color"], step["value"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    if steps == [("green", None)]:
        return 0
    if not linked:
        fault(where, "it has thresholds and no alert")
        return 0
    expected = expected_steps(linked[0])
    for (colour, value), (expected_colour, expected_value) in zip(steps, expected, strict=True):
        same = value == expected_value if None in (value, expected_value) else abs(value - expected_value) < 0.00001
        if colour != expected_colour or not same:
            fault(where, f"the threshold is {colour} from {value}; {linked[0].name} has {expected_colour} from {expected_value}")
    compared = {selector.name for selector in selectors(comparison(linked[0].expression)[0])}
    shown = {selector.name for target in panel["targets"] for selector in selectors(target["expr"])}
    # Recorded series of one kind differ in their window only.
    compared, shown = ({re.sub(r"_rate\d+[mh]$", "", name) for name in names} for names in (compared, shown))
    if not compared & shown:
        fault(where, f"it has the threshold of {linked[0].name} and shows none of {', '.join(sorted(compared))}")
    return 1


def check_panel(where, panel, variables, series, alerts):
    if panel["datasource"] != DATASOURCE:
        fault(where, "its data source is not the variable datasource")
    if not re.fullmatch(r"[^a-z].{10,}\.", panel["description"]):
        fault(where, f"the description is no sentence: {panel['description']!r}")
    if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
        fault(where, f"unknown unit {panel['fieldConfig']['defaults']['unit']}")
    letters = [target["refId"] for target in panel["targets"]]
    if not letters or len(set(letters)) != len(letters):
        fault(where, f"the targets are named {letters}")
    for target in panel["targets"]:
        if target["datasource"] != DATASOURCE or not target["legendFormat"]:
            fault(where, "a target has another data source, or no legend")
        check_expression(where, target["expr"], variables, series)
    return check_alerts(where, panel, alerts)


def check_variables(where, dashboard, series):
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            if not match or match[2] not in series.get(match[1], set()):
                fault(where, f"the variable {variable['name']} asks for {variable['query']['query']}, which does not exist")
            if variable["datasource"] != DATASOURCE:
                fault(where, f"the data source of the variable {variable['name']} is not the variable datasource")
        elif variable["type"] == "custom" and variable["query"].split(",") != [option["value"] for option in variable["options"]]:
            fault(where, f"the values and the options of the variable {variable['name']} differ")
    return {variable["name"] for variable in dashboard["templating"]["list"]}


def main():
    all_rules, series = list(rules()), documented_metrics()
    grouped = re.compile(r"\bby \(([^)]*)\)")
    series |= {rule.name: set(re.findall(r"\w+", " ".join(grouped.findall(rule.expression)))) for rule in all_rules if rule.kind == "record"}
    alerts = {rule.name: rule for rule in all_rules if rule.kind == "alert"}
    uids, linked, panels, thresholds = set(), set(), 0, 0
    paths = files(FOLDER, ".json")
    for path in paths:
        dashboard = json.loads(read(path))
        where = dashboard["title"]
        if os.path.basename(path) != dashboard["uid"] + ".json" or not re.fullmatch(r"[a-z][a-z-]{1,39}", dashboard["uid"]):
            fault(where, f"the file of the uid {dashboard['uid']} is named {os.path.basename(path)}")
        if dashboard["uid"] in uids or "id" in dashboard:
            fault(where, "the uid is there twice, or the file has the number of one Grafana")
        uids.add(dashboard["uid"])
        if dashboard["schemaVersion"] != SCHEMA:
            fault(where, f"schemaVersion is {dashboard['schemaVersion']}, expected {SCHEMA}")
        variables = check_variables(where, dashboard, series)
        if not {"datasource", "runbook"} <= variables:
            fault(where, "the variable datasource or runbook is missing")
        numbers, taken = set(), {}
        for panel in dashboard["panels"]:
            place = f"{where}: {panel['title']}"
            if panel["id"] in numbers or panel["type"] not in KINDS:
                fault(place, f"the number {panel['id']} is there twice, or {panel['type']} is no kind of panel")
            numbers.add(panel["id"])
            check_place(place, panel, taken)
            if panel["type"] != "row":
                panels += 1
                thresholds += check_panel(place, panel, variables, series, alerts)
                linked |= {link["title"].removeprefix("Runbook: ") for link in panel["links"]}
    for name in sorted(alerts.keys() - linked):
        fault(FOLDER, f"no panel links to the page of {name}")
    if panels < 50 or thresholds < 25:
        fault(FOLDER, f"found only {panels} panels with {thresholds} thresholds; has the form of the files changed?")
    for line in faults:
        print(f"    {line}", file=sys.stderr)
    if faults:
        print(f"check_dashboards.py: {len(faults)} faults", file=sys.stderr)
        sys.exit(1)
    print(f"{len(paths)} dashboards, {panels} panels, {thresholds} with the threshold of an alert")


main()
