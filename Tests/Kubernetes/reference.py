"""What the repository's own pages and files say, for the checks of the manifests."""

import os
import re

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def settings():
    """Of each program its settings with their defaults, from docs/reference/settings.md."""
    found, program = {}, None
    for line in read("docs/reference/settings.md").split("\n"):
        if line.startswith("## "):
            program = found.setdefault(line[3:], {})
        elif match := re.match(r"\| `(\w+)` \| `?([^|`]*)`? \|", line):
            program[match[1]] = match[2].strip()
    # pushctl's are in its guide.
    found["pushctl"] = dict.fromkeys(re.findall(r"^\| `(PUSH_\w+)` \|", read("docs/guides/operate.md"), re.M))
    return found


def version():
    return re.search(r"^ARG VERSION=(\S+)", read("deploy/Dockerfile"), re.M)[1]


def recorded_series():
    groups = yaml.safe_load(read("deploy/monitoring/rules/scaling.yml"))["groups"]
    return {rule["record"] for group in groups for rule in group["rules"]}


def guide():
    path = "docs/guides/kubernetes.md"
    return read(path) if os.path.exists(os.path.join(ROOT, path)) else ""
