#!/usr/bin/env python3
"""Writes the dashboards of deploy/monitoring/dashboards for Grafana from deploy/monitoring/dashboards/definitions.py.

Usage: deploy/scripts/make-dashboards.py [--check]

  --check   write nothing; end with 1 if a file is not what the definitions and the rules make
"""

import importlib.util
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from alert_rules import ROOT, comparison, rules  # noqa: E402 (after the path)

FOLDER = os.path.join(ROOT, "deploy/monitoring/dashboards")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RULES = {rule.name: rule for rule in rules()}
WIDTH = 24
COLOURS = {"page": "red", "ticket": "orange"}


def steps(alert):
    """The thresholds of a panel: the value from which on the alert fires. Grafana colours what is equal to a step or above it."""
    rule = RULES[alert]
    _, operator, value = comparison(rule.expression)
    value = round(value, 6)
    colour = COLOURS[rule.severity]
    if operator == ">" and value == 0:
        value = 0.000001  # 0 itself is well
    if operator in (">", ">="):
        return [("green", None), (colour, value)]
    if operator == "<":
        return [(colour, None), ("green", value)]
    # Gauges that are 0 or 1, and counts: 0 is the fault, or 1 is.
    return [(colour, None), ("green", 1)] if value == 0 else [("green", None), (colour, value)]


def links(alerts):
    return [
        {"title": f"Runbook: {alert}", "url": "${runbook}/" + RULES[alert].page.removeprefix("docs/runbook/"), "targetBlank": True}
        for alert in alerts
    ]


def panel(number, place, made):
    is_stat = made.kind == "stat"
    thresholds = steps(made.alerts[0]) if made.alerts and made.has_threshold else [("green", None)]
    defaults = {
        "unit": made.unit,
        "thresholds": {"mode": "absolute", "steps": [{"color": colour, "value": value} for colour, value in thresholds]},
    }
    if is_stat:
        options = {
            "colorMode": "background", "graphMode": "area", "justifyMode": "auto", "textMode": "auto", "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    else:
        options = {
            "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        defaults["min"] = 0
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never",
            "stacking": {"mode": "normal" if made.is_stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if len(thresholds) > 1 else "off"},
        }
    return {
        "id": number, "type": made.kind, "title": made.title, "description": made.description, "datasource": DATASOURCE,
        "gridPos": place, "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options, "links": links(made.alerts),
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "editorMode": "code", "expr": expression, "legendFormat": legend,
             "range": True}
            for index, (expression, legend) in enumerate(made.targets)
        ],
    }


def laid_out(rows):
    """Panels from left to right and from top to bottom, each row below its heading."""
    panels, top = [], 0
    for heading, members in rows:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        panels.append({"id": len(panels) + 1, "type": "row", "title": heading, "collapsed": False, "gridPos": place, "panels": []})
        top, left, height = top + 1, 0, 0
        for made in members:
            if left + made.width > WIDTH:
                top, left, height = top + height, 0, 0
            place = {"h": made.height, "w": made.width, "x": left, "y": top}
            panels.append(panel(len(panels) + 1, place, made))
            left, height = left + made.width, max(height, made.height)
        top += height
    return panels


def variables(definition):
    yield {"name": "datasource", "type": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1}
    yield {"name": "runbook", "type": "textbox", "label": "Address of docs/runbook", "query": "https://example.com/push/docs/runbook"}
    for name, label, query in definition.variables:
        if isinstance(query, tuple):
            options = [{"text": value, "value": value, "selected": value == query[0]} for value in query]
            yield {
                "name": name, "type": "custom", "label": label, "query": ",".join(query), "options": options, "current": options[0],
                "multi": False, "includeAll": False,
            }
        else:
            yield {
                "name": name, "type": "query", "label": label, "datasource": DATASOURCE, "refresh": 2, "sort": 1, "multi": False,
                "includeAll": False, "query": {"qryType": 1, "query": query, "refId": "variable"},
            }


def dashboard(definition):
    return {
        "uid": definition.uid, "title": definition.title, "description": definition.description, "tags": ["push"],
        "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser", "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(variables(definition))},
        "links": [{"type": "dashboards", "title": "Push", "tags": ["push"], "asDropdown": True, "keepTime": True, "includeVars": False}],
        "panels": laid_out(definition.rows),
    }


def definitions():
    spec = importlib.util.spec_from_file_location("definitions", os.path.join(FOLDER, "definitions.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DASHBOARDS


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stdout if "--help" in sys.argv else sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    dashboards = [dashboard(definition) for definition in definitions()]
    made = {f"{content['uid']}.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n" for content in dashboards}
    there = {name for name in os.listdir(FOLDER) if name.endswith(".json")}
    stale = there - made.keys()
    for name, text in made.items():
        path = os.path.join(FOLDER, name)
        if name not in there or open(path, encoding="utf-8").read() != text:
            stale.add(name)
            if "--check" not in sys.argv:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    if "--check" not in sys.argv:
        for name in there - made.keys():
            os.remove(os.path.join(FOLDER, name))
    elif stale:
        names = ", ".join(sorted(stale))
        print(f"make-dashboards.py: not as the definitions and the rules make it: {names}; run deploy/scripts/make-dashboards.py",
              file=sys.stderr)
        sys.exit(1)


main()
