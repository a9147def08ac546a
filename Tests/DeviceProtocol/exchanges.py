#!/usr/bin/env python3
"""Replays the exchanges of docs/guides/device-protocol.md against a running platform, and compares each answer with the recorded one and with the
API's description.

    PUSH_KEY=psh_… Tests/DeviceProtocol/exchanges.py PUSH_URL SIMULATOR_URL [--record]

The key needs the scopes devices, send and read, and the app `shop`. Each run makes installations, users and tokens of its own, and calls them in its
messages as the page does. --record writes the answers of this run into the page; statuses stay, and another status is a fault."""

import concurrent.futures
import datetime
import json
import os
import re
import secrets
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/guides/device-protocol.md")
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TOKEN = r"\b[0-9a-f]{64}\b"
CREDENTIAL = r"psd_[A-Za-z0-9_-]+"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
SHOWN = ("Content-Type", "ETag", "Retry-After", "WWW-Authenticate")
USERS = ("ada", "grace")

real = {}  # what the page says -> what this run says
expires_at = None  # of the newest credential


def fault(text):
    sys.exit(f"exchanges: {text}")


def learn(said, found):
    """Binds ids and credentials that the server chose."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key in said:
            learn(said[key], found.get(key))
    elif isinstance(said, list) and isinstance(found, list):
        for one, other in zip(said, found):
            learn(one, other)
    elif isinstance(said, str) and isinstance(found, str) and re.fullmatch(f"{UUID}|{CREDENTIAL}", said):
        real.setdefault(said, found)


def to_run(text):
    text = re.sub(f"{UUID}|{TOKEN}|{CREDENTIAL}", lambda match: real.get(match[0], match[0]), text)
    for user in USERS:  # notifications to them must reach no device of another run
        text = re.sub(rf'(?<=")({user})(?=")|(?<=expected_user=)({user})\b', f"{user}-{RUN}", text)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return re.sub(TIME, now, text)


def to_page(text):
    for said, found in real.items():
        text = text.replace(found, said)
    return re.sub(f"({'|'.join(USERS)})-{RUN}", r"\1", text)


def send(method, path, headers, body, base=None):
    request = urllib.request.Request((base or PUSH_URL) + path, method=method, data=body.encode() if body else None, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, answer.headers, answer.read().decode()


def until_refused(said, *request):
    """Sends many at once until one is refused for their number, with the recorded code."""
    code, seen = "" if RECORD else json.loads(said)["code"], set()
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        for _ in range(20):
            for answer in pool.map(lambda _: send(*request), range(24)):
                if answer[0] == 429 and code in answer[2]:
                    return answer
                seen.add(f"{answer[0]} {json.loads(answer[2] or '{}').get('code', '')}".strip())
            time.sleep(1)  # ten in a second is what a device has, and that refusal comes before the recorded one
    fault(f"480 requests, 24 at once, and none was answered 429 {code}, but {', '.join(sorted(seen))}: {request[0]} {request[1]}")


def schema_faults(schema, value, place):
    """What of the document's JSON Schema these bodies need."""
    if "$ref" in schema:
        schema = {**DOCUMENT["components"]["schemas"][schema["$ref"].split("/")[-1]], **{k: v for k, v in schema.items() if k != "$ref"}}
    for word in ("anyOf", "oneOf"):
        if word in schema and all(schema_faults(choice, value, place) for choice in schema[word]):
            return [f"{place}: {json.dumps(value)} is none of its {word}"]
    found = [line for part in schema.get("allOf", []) for line in schema_faults(part, value, place)]
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", type(None): "null", float: "number"}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and names[type(value)] not in types and not ("number" in types and type(value) is int):
        found.append(f"{place}: {json.dumps(value)} is no {types}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place}: {json.dumps(value)} is none of {schema['enum']}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place}: {value} does not match {schema['pattern']}")
    if isinstance(value, list):
        found += [line for number, item in enumerate(value) for line in schema_faults(schema.get("items", {}), item, f"{place}/{number}")]
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place}: {key} is missing" for key in schema.get("required", []) if key not in value]
        for key, item in value.items():
            if key in properties:
                found += schema_faults(properties[key], item, f"{place}/{key}")
            elif more is False:
                found.append(f"{place}: the document has no {key}")
    return found


def document_faults(method, path, body, status, answer):
    plain = path.split("?")[0]
    for route, operations in DOCUMENT["paths"].items():
        if re.fullmatch(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(route)), plain) and method.lower() in operations:
            operation = operations[method.lower()]
            break
    else:
        return [f"the document has no {method} {plain}"]
    if str(status) not in operation["responses"]:
        return [f"the document has no answer {status} to {method} {plain}"]
    found = []
    if body and status < 400:
        found += schema_faults(next(iter(operation["requestBody"]["content"].values()))["schema"], json.loads(body), "request")
    response = operation["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].split("/")[-1]]
    if answer:
        found += schema_faults(next(iter(response["content"].values()))["schema"], json.loads(answer), "answer")
    return found


def alike(said, found):
    if isinstance(said, dict) and isinstance(found, dict):
        return said.keys() == found.keys() and all(alike(said[key], found[key]) for key in said)
    if isinstance(said, list) and isinstance(found, list):
        return len(said) == len(found) and all(map(alike, said, found))
    if isinstance(said, str) and isinstance(found, str):
        # A fence is pending until the broker has confirmed it.
        words = {"effective", "pending"}
        return said == found or re.fullmatch(TIME, said) and re.fullmatch(TIME, found) or {said, found} <= words
    return said == found


def layout(value):
    """JSON in lines of about 100 columns, broken between the fields of the outermost object."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    lines = [""]
    for number, (key, item) in enumerate(value.items()):
        text = f"{json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" + ("," if number + 1 < len(value) else "")
        if lines[-1] and len(lines[-1]) + len(text) > 100:
            lines.append(text)
        else:
            lines[-1] += " " + text if lines[-1] else text
    return "{" + "\n ".join(lines) + "}"


def split(text):
    head, _, body = text.partition("\n\n")
    first, *fields = head.split("\n")
    return first, dict(field.split(": ", 1) for field in fields), body.strip()


def run(block, number):
    global expires_at
    asked, answered = re.split(r"\n\n(?=HTTP/1\.1 )", block.strip("\n"))
    (line, headers, body), (status_line, recorded, said) = split(asked), split(answered)
    method, path = line.split(" ")
    wanted = int(status_line.split(" ")[1])
    words = f"exchange {number}, {method} {path}"
    run_headers = {name: f"Bearer {PUSH_KEY}" if value == "Bearer psh_…" else to_run(value) for name, value in headers.items()}
    request = (method, to_run(path), run_headers, to_run(body))
    if wanted == 401 and "credential_expired" in said:
        time.sleep(max(0, expires_at - time.time() + 1))  # the least lifetime of a credential is a minute
    status, fields, answer = until_refused(said, *request) if wanted == 429 else send(*request)
    while status == 429 != wanted:  # the exchanges are more requests than one device may send in their time
        time.sleep(int(fields["Retry-After"]))
        status, fields, answer = send(*request)
    if status != wanted:
        fault(f"{words}: {wanted} is recorded, and the answer is {status} {answer}")
    faults = document_faults(*request[:2], request[3], status, answer)
    if faults:
        fault(f"{words} does not agree with the API's description: {'; '.join(faults)}")
    found = json.loads(answer) if answer else None
    learn(json.loads(said) if said else None, found)
    if found and "expires_at" in found and "credential" in found:
        expires_at = datetime.datetime.fromisoformat(found["expires_at"].replace("Z", "+00:00")).timestamp()
    found = json.loads(to_page(answer)) if answer else None
    if status == 429:
        time.sleep(int(fields["Retry-After"]))
    if method == "POST" and path.endswith("/notifications"):
        delivered(json.loads(answer)["id"])
    if RECORD:
        shown = "".join(f"\n{name}: {to_page(fields[name])}" for name in SHOWN if name in fields)
        body = layout(json.loads(to_page(request[3]))) if body else ""
        return "\n".join([asked.split("\n\n")[0]] + ["", body] * bool(body)) + f"\n\n{status_line}{shown}" + (f"\n\n{layout(found)}" if answer else "") + "\n"
    shown = {name: to_page(fields[name]) for name in SHOWN if name in fields}
    # An ETag stands for what else the installation has.
    if {**shown, "ETag": None} != {**recorded, "ETag": None} or ("ETag" in shown) != ("ETag" in recorded):
        fault(f"{words}: these headers are recorded: {recorded}, and the answer has {shown}")
    if not alike(json.loads(said) if said else None, found):
        fault(f"{words}: the answer is not the recorded one:\n{layout(found)}")
    return block


def delivered(notification):
    """Waits until APNs has accepted it: a receipt counts from then on."""
    for _ in range(200):
        found = json.loads(send("GET", f"/v1/apps/shop/notifications/{notification}", {"Authorization": f"Bearer {PUSH_KEY}"}, "")[2])
        if found["state"] == "completed":
            return
        time.sleep(0.1)
    fault(f"the notification {notification} is not completed after 20 s: {found}")


RECORD = "--record" in sys.argv
PUSH_URL, SIMULATOR_URL = [argument for argument in sys.argv[1:] if argument != "--record"]
PUSH_KEY = os.environ["PUSH_KEY"]
RUN = secrets.token_hex(4)
with open(PAGE, encoding="utf-8") as file:
    page = file.read()
DOCUMENT = json.loads(send("GET", "/openapi.json", {}, "")[2])
parts = re.split(r"(?<=```http\n)(.*?)(?=```)", page, flags=re.S)
requests = [re.split(r"\n\n(?=HTTP/1\.1 )", block)[0] for block in parts[1::2]]
for said in re.findall(UUID, "\n".join(re.findall(rf"installations/{UUID}", "\n".join(requests)))):
    real.setdefault(said, str(uuid.uuid4()))
for said in re.findall(TOKEN, "\n".join(requests)):
    # With the same end, which the platform shows.
    real.setdefault(said, secrets.token_hex(29) + said[-6:])
for token in [found for said, found in real.items() if len(said) == 64]:
    send("PUT", f"/v1/devices/{token}", {}, '{"environment": "production", "state": "installed"}', SIMULATOR_URL)
if not parts[1::2]:
    fault(f"{PAGE} has no exchange")
for number in range(1, len(parts), 2):
    parts[number] = run(parts[number], number // 2 + 1)
if RECORD:
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("".join(parts))
print(f"exchanges: {len(parts) // 2} are {'recorded' if RECORD else 'as recorded'}")
