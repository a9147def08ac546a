#!/usr/bin/env python3
"""Checks that the Markdown of this repository is true: links, anchors, names of files, functions, settings, metrics with their labels, and routes exist,
lines of prose have at most 120 characters, and the token service's floors are as large as its README says. Prints each fault with its file and
line; exit code 1 if there is one."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from alert_rules import documented_metrics  # noqa: E402 (after the path)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINE = 120
# Names of other systems' parts that look like ours.
FOREIGN = {
    # Apple
    "ProcessInfo", "didFailToRegisterForRemoteNotificationsWithError", "isiOSAppOnVision",
    "didRegisterForRemoteNotificationsWithDeviceToken",
    "kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly",
    # Other projects
    "ApnsClientHandler", "SWIFT_DETERMINISTIC_HASHING", "SyncRep",
    "getAPNSToken", "getDevicePushTokenAsync", "getExpoPushTokenAsync", "getToken",
}


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


FILES = git("ls-files", "-co", "--exclude-standard").split("\n")
FILES = [name for name in FILES if name and os.path.exists(os.path.join(ROOT, name))]
FOLDERS = {"/".join(name.split("/")[:depth]) for name in FILES for depth in range(1, name.count("/") + 1)}
PAGES = [name for name in FILES if name.endswith(".md")]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


CODE = "\n".join(read(name) for name in FILES if re.search(r"\.(swift|sql|sh|py|pml|proto|json|html|js|yml|c|h)$|/(run|test|bench|chaos|containers|fuzz|Dockerfile)$", name)
                 and not name.startswith("docs/"))
WORDS = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", CODE))
# The programs write the page of settings from their declarations.
KEYS = set(re.findall(r"(?m)^\| `([A-Z][A-Z0-9_]*)`", open(os.path.join(ROOT, "docs/reference/settings.md")).read()))
METRICS = set(re.findall(r"\b(?:push|process)_[a-z_]+\b", CODE + read("docs/reference/metrics.md")))
LABELS = documented_metrics()
ROUTES = {re.sub(r"\{[^}]*\}", "{}", path) for path in re.findall(r'"(/(?:v1|healthz|readyz|metrics|docs|openapi\.json|3/device|1/apps)[^" ]*)"', CODE)}


def anchor(heading):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip()).lower()
    return "".join("-" if c == " " else c for c in text if c.isalnum() or c in " -_")


def anchors(name):
    seen, found, fenced = {}, set(), False
    for line in read(name).split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif line.startswith("#") and not fenced:
            base = anchor(line)
            found.add(base if base not in seen else f"{base}-{seen[base]}")
            seen[base] = seen.get(base, 0) + 1
    return found


ANCHORS = {name: anchors(name) for name in PAGES}
faults = []


def fault(page, number, text):
    faults.append(f"{page}:{number}: {text}")


def check_link(page, number, link):
    if "://" in link or link.startswith("mailto:"):
        return
    path, _, part = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if target != "." and target not in FOLDERS and target not in FILES:
        fault(page, number, f"the link {link} leads nowhere")
    elif part and target in ANCHORS and part not in ANCHORS[target]:
        fault(page, number, f"{target} has no heading #{part}")


def check_code(page, number, text):
    """One text in back-quotes."""
    text = text.strip()
    path = text.rstrip("/").split(" ")[0]
    top = path.split("/")[0]
    if "/" in path and top in ("Services", "Shared", "Tests", "deploy", "docs") and not re.search(r"[*…<{$]", path):
        if path not in FOLDERS and path not in FILES and path + ".swift" not in FILES:
            fault(page, number, f"there is no {path}")
        return
    if re.fullmatch(r"(?:push|process)_[a-z_]+(?:\{.*\})?", text):
        name = text.split("{")[0]
        if name not in METRICS and name not in WORDS:
            fault(page, number, f"there is no metric {name}")
        elif name in LABELS:
            # `name{label="value", label=~"value"}`, or `name{label, label}`.
            values = re.sub(r'"[^"]*"', "", text[len(name):].strip("{}"))
            for label in filter(None, (part.strip(" =~!") for part in values.split(","))):
                if label not in LABELS[name]:
                    fault(page, number, f"the metric {name} has no label {label}")
    elif re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:=\S*)?", text):
        name = text.split("=")[0]
        if name not in WORDS and name not in KEYS and name not in FOREIGN:
            fault(page, number, f"there is no setting {name}")
    elif match := re.fullmatch(r"(?:(GET|PUT|POST|PATCH|DELETE) )?(/v1/[^ ?]*)(?:\?\S*)?", text):
        path = re.sub(r"\{[^}]*\}", "{}", match[2])
        if "…" not in path and not any(route == path or route.startswith(path + "/") for route in ROUTES):
            fault(page, number, f"there is no route {path}")
    elif re.fullmatch(r"(?:[A-Z]\w*\.)?[a-z]+[A-Z]\w*(?:\([\w:]*\))?", text) or re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*(?:\.\w+(?:\([\w:]*\))?)?", text):
        for word in re.split(r"[.(:)]+", text):
            if word and word not in WORDS and word not in FOREIGN:
                fault(page, number, f"nothing is called {text}")
                break


def check_page(page):
    fence, paragraph = None, 0
    for number, line in enumerate(read(page).split("\n"), 1):
        stripped = line.lstrip()
        if stripped.startswith("```"):
            fence = None if fence else stripped[3:].strip() or "text"
            continue
        if fence or line.startswith("    "):
            continue
        is_table = stripped.startswith("|")
        without_links = re.sub(r"\]\([^)]*\)", "]", line)
        if len(without_links) > LINE and not is_table and not re.match(r"<!--|\[[^\]]+\]: ", stripped):
            fault(page, number, f"the line has {len(without_links)} characters, {LINE} are allowed")
        for link in re.findall(r"\]\(([^)\s]+)\)", line):
            check_link(page, number, link)
        for text in re.findall(r"`([^`]+)`", line):
            check_code(page, number, text)


def check_floors(page):
    """The lines of each floor: within a tenth of the figure in the table, and no more than docs/decisions/floors.md allows."""
    text = read(page)
    rows = re.findall(r"(?m)^\| `(\w+)` \| `TokenService\w*` \| ([\d,]+) \|", text)
    for floor, figure in rows:
        number = text[:text.index(f"| `{floor}` | `TokenService")].count("\n") + 1
        folder, stated = f"Services/TokenService/{floor}/", int(figure.replace(",", ""))
        lines = sum(read(name).count("\n") for name in FILES if name.startswith(folder) and name.endswith(".swift"))
        if abs(lines - stated) > lines / 10:
            fault(page, number, f"{floor} has {lines:,} lines, not {figure}")
        if lines > 14_000:
            fault(page, number, f"{floor} has {lines:,} lines; 14,000 are allowed, so split it")
    if len(rows) != 9:
        fault(page, 1, f"the table of floors has {len(rows)} rows that can be read, not 9")


for page in PAGES:
    check_page(page)
check_floors("Services/TokenService/README.md")
version = re.search(r'number: "([^"]+)"', read("Shared/Observability/Operations/BuildVersion.swift"))[1]
if f"ARG VERSION={version}\n" not in read("deploy/Dockerfile"):
    fault("deploy/Dockerfile", 1, f"VERSION is not the programs' {version}")
for changelog in ("docs/CHANGELOG.md", "deploy/packages/push-client/CHANGELOG.md", "deploy/packages/push-api/CHANGELOG.md"):
    if f"## {version}" not in read(changelog):
        fault(changelog, 1, f"there is nothing about {version}")
for line in faults:
    print(line, file=sys.stderr)
if faults:
    print(f"check-docs: {len(faults)} faults", file=sys.stderr)
    sys.exit(1)
print(f"check-docs: {len(PAGES)} pages are in order")
