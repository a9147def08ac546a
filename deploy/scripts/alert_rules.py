"""Reads the rules of deploy/monitoring/rules without a YAML library, and the PromQL in them. The checks of the rules and of the dashboards use
it, and make-dashboards.py."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = "deploy/monitoring/rules"
TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''      # a text
    r'|\{(?:[^}"\']|"[^"]*"|\'[^\']*\')*\}'        # the labels of a selector
    r"|\[[^\]]*\]"                                 # a range
    r"|[a-zA-Z_:][\w:]*|[\d.]+\w*"                 # a name; a number or a duration
    r"|==|!=|>=|<=|\S")
GROUPING = {"by", "on", "without", "ignoring", "group_left", "group_right"}
KEYWORDS = {"and", "or", "unless", "bool", "offset"}
COMPARISONS = {"==", "!=", ">", "<", ">=", "<="}


class Selector:
    """The series that an expression reads, without range and offset."""

    def __init__(self, name, matchers):
        self.name = name
        self.text = name + matchers
        self.labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"|\'[^\']*\'', "", matchers))


def selectors(expression):
    tokens = TOKEN.findall(expression) + [""]
    place, found = 0, []
    while place < len(tokens) - 1:
        token, following = tokens[place], tokens[place + 1]
        place += 1
        if token in GROUPING:
            if following == "(":
                place = tokens.index(")", place) + 1
        elif re.match(r"[a-zA-Z_:]", token):
            # A name before a parenthesis, or before the labels of an aggregation, is a function.
            if token in KEYWORDS or following == "(" or following in ("by", "without"):
                continue
            found.append(Selector(token, following if following.startswith("{") else ""))
    return found


def comparison(expression):
    """What an alert compares with a number: the expression, the operator and the number; None if it compares with no number."""
    depth, started = 0, 0
    matches = list(TOKEN.finditer(expression))
    for place, match in enumerate(matches):
        token = match.group()
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth == 0 and token in COMPARISONS:
            number = re.match(r"\s*(\d[\d.]*)(?:\s*\*\s*(\d[\d.]*))?\s*(?:$|\n|(?:and|or|unless)\b)", expression[match.end():])
            if number:
                value = float(number[1]) * float(number[2] or 1)
                return expression[started:match.start()].strip(), token, value
        elif depth == 0 and token in ("and", "or", "unless"):
            started = match.end()
    return None


class Rule:
    def __init__(self, path, text):
        self.path = path
        self.kind, self.name = re.match(r" *- (alert|record): (\S+)", text).groups()
        block = re.search(r"\n( *)expr: *(\|?)(.*(?:\n\1 +.*)*)", text)
        self.expression = re.sub(r"#.*", "", block[3]).strip()
        self.severity, self.team, self.page = (
            match[1] if (match := re.search(rf"\b{field}: *([\w./-]+)", text)) else None for field in ("severity", "team", "runbook")
        )
        self.has_summary = re.search(r"\bsummary: *\S", text) is not None


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files(folder, ending):
    return sorted(f"{folder}/{name}" for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(ending))


def rules():
    for path in files(FOLDER, ".yml"):
        text = re.sub(r"^\s*#.*\n", "", read(path), flags=re.M)
        for part in re.split(r"\n(?= *- (?:alert|record|name): )", text):
            if re.match(r" *- (alert|record): ", part):
                yield Rule(path, part)


def documented_metrics():
    """Each documented metric with its labels; a histogram under the names of its three kinds of series."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \|", read("docs/reference/metrics.md"), re.M):
        labels = set(re.findall(r"`(\w+)`", labels)) | {"job", "instance"}
        if kind == "histogram":
            found |= {name + "_bucket": labels | {"le"}, name + "_sum": labels, name + "_count": labels}
        else:
            found[name] = labels
    return found
