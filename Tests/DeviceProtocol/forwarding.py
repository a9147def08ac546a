#!/usr/bin/env python3
"""Takes the Python and the Node program out of docs/guides/forwarding.md, and tries each with requests of an app against a stand-in for the platform.
The cases are those of Tests/PushAPITests/ForwardTests.swift. Without Node it tries the Python program alone, and says so."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
APP, ID = "/v1/apps/shop", "6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b11"
HERE = f"{APP}/installations/{ID}"
ADA = {"user": "ada", "installation": ID.upper(), "over": False}
OVER, NOBODY = {**ADA, "over": True}, {**ADA, "user": None}
NOBODY_OVER = {**NOBODY, "over": True}
# Sessions that began with such an id.
OUTSIDE, ASTRAY, LONG, EMPTY = ({**ADA, "installation": id} for id in ("../users/grace", "../tokens", ID + "/../../users/grace", ""))
STATE, REPORT = '{"user": "ada", "tokens": []}', '{"token": "00", "expected_user": "ada"}'
# Session, method, target, body, status. 200 and 409 are the platform's own; with any other status it must get no request.
CASES = [
    (ADA, "PUT", HERE, '{"user": "ada", "tokens": [], "expected_user": "grace"}', 200),
    (ADA, "PATCH", HERE, '{"user": "ada", "replaces": null}', 200),
    (ADA, "POST", HERE + "/logout", '{"expected_user": "grace"}', 200), (ADA, "POST", HERE + "/logout", "", 200),
    (ADA, "DELETE", HERE + "?expected_user=ada%20b", "", 200), (ADA, "DELETE", HERE, "", 200),
    (ADA, "POST", HERE + "/receipts", '{"receipts": []}', 200), (ADA, "PUT", HERE + "/activities/ride%2F1", REPORT, 200),
    (ADA, "DELETE", HERE + "/activities/ride", "", 200), (ADA, "DELETE", HERE + "/activities/answer409", "", 409),
    (NOBODY, "PUT", HERE, '{"user": null, "tokens": []}', 200), (NOBODY, "PUT", HERE, STATE, 401), (NOBODY, "PUT", HERE, '{"tokens": []}', 401),
    (ADA, "GET", HERE, "", 403), (ADA, "PUT", HERE + "/tags", '{"tags": ["staff"]}', 403), (ADA, "POST", APP + "/import", "{}", 403),
    (ADA, "GET", APP + "/export", "", 403), (ADA, "POST", APP + "/users/ada/logout", "", 403), (ADA, "put", HERE, STATE, 403),
    (ADA, "PUT", HERE.replace("shop", "other"), STATE, 403), (ADA, "PUT", HERE[:-1] + "2", STATE, 403),
    (ADA, "PUT", HERE + "?tokens=full", STATE, 403), (ADA, "DELETE", HERE + "?x=1", "", 403),
    (ADA, "DELETE", HERE + "?expected_user=ada&force=true", "", 403), (ADA, "DELETE", HERE + "?expected_user=ada\n", "", 403),
    (ADA, "POST", HERE + "/logout?expected_user=ada", "", 403), (ADA, "PUT", "x" + HERE, STATE, 403), (ADA, "PUT", HERE + "/", STATE, 403),
    (ADA, "PUT", HERE + "/activities/../tags", '{"tags": []}', 403), (ADA, "DELETE", HERE + "/activities/ride%2", "", 403),
    (ADA, "POST", HERE + "/activities/..", "", 403), (ADA, "DELETE", HERE + "2/activities/..", "", 403),
    (ADA, "PUT", HERE + "/activities/..", REPORT, 400), (ADA, "PUT", HERE + "/activities/..%2Ftags", REPORT, 400),
    (ADA, "PUT", HERE + "/activities/%2e%2E%2ftags", REPORT, 400), (ADA, "PUT", HERE + "/activities/ride%2F..%2F..%2Ftags", REPORT, 400),
    (ADA, "DELETE", HERE + "/activities/%2e%2e", "", 400), (ADA, "DELETE", HERE + "/activities/..%5C", "", 400),
    (ADA, "PUT", HERE + "/activities/https%3A%2F%2Fshop.example%2Fride%2F1", REPORT, 400), (ADA, "DELETE", HERE + "/activities/", "", 400),
    (ADA, "DELETE", HERE + "/activities/order%2F17%2F", "", 400),
    (ADA, "PUT", HERE, '{"user": "ada", "tokens": [], "replaces": "0a"}', 403), (ADA, "PATCH", HERE, '{"user": "ada", "replaces": "0a"}', 403),
    (ADA, "PUT", HERE, '{"user": "eve", "tokens": []}', 401), (ADA, "PUT", HERE, '{"user": null, "tokens": []}', 401),
    (ADA, "PUT", HERE, '{"user": "Ada", "tokens": []}', 401), (ADA, "PUT", HERE, '{"user": ["ada"], "tokens": []}', 401),
    (ADA, "PUT", HERE, '{"tokens": []}', 401), (ADA, "PATCH", HERE, '{"__proto__": {"user": "ada"}}', 401), (ADA, "PUT", HERE, "", 401),
    (ADA, "PUT", HERE + "/activities/ride", '{"token": "00", "expected_user": "eve"}', 401),
    (ADA, "PUT", HERE + "/activities/ride", '{"token": "00"}', 401),
    (ADA, "POST", HERE + "/logout", "[]", 400), (ADA, "PATCH", HERE, '{"user": "ada", "app_tags": ' + "[" * 30000 + "]" * 30000 + "}", 400),
    (ADA, "PUT", HERE, "[]", 400), (ADA, "PUT", HERE, "{", 400), (ADA, "PUT", HERE, '{"user": "ada", "tokens": [' + " " * 65536 + "]}", 400),
    (OVER, "PUT", HERE, STATE, 401), (OVER, "PATCH", HERE, STATE, 401), (OVER, "PUT", HERE + "/activities/ride", REPORT, 401),
    (OVER, "POST", HERE + "/receipts", '{"receipts": []}', 401), (OVER, "POST", HERE + "/logout", '{"expected_user": "ada"}', 200),
    (OVER, "DELETE", HERE + "?expected_user=%61da", "", 200), (OVER, "DELETE", HERE + "/activities/ride", "", 401),
    (OVER, "POST", HERE + "/logout", "", 401), (OVER, "POST", HERE + "/logout", "{}", 401), (OVER, "DELETE", HERE, "", 401),
    (OVER, "POST", HERE + "/logout", '{"expected_user": "grace"}', 401), (OVER, "POST", HERE + "/logout", '{"expected_user": null}', 401),
    (OVER, "DELETE", HERE + "?expected_user=grace", "", 401), (OVER, "DELETE", HERE, '{"expected_user": "ada"}', 401),
    (NOBODY_OVER, "POST", HERE + "/logout", '{"expected_user": null}', 200), (NOBODY_OVER, "POST", HERE + "/logout", "", 401),
    (NOBODY_OVER, "DELETE", HERE, "", 401), (NOBODY_OVER, "DELETE", HERE + "?expected_user=null", "", 401),
    (OUTSIDE, "POST", APP + "/installations/../users/grace/logout", "", 403),
    (ASTRAY, "POST", APP + "/installations/../tokens/logout", "{}", 403),
    (LONG, "POST", f"{HERE}/../../users/grace/logout", "", 403), (EMPTY, "POST", APP + "/installations//logout", "", 403),
    (OUTSIDE, "DELETE", APP + "/installations/../users/grace", "", 403),
]
# Whichever of the two users a program reads: it sends that one alone.
TWICE = '{"user": "eve", "user": "ada", "tokens": []}'
DRIVER_PYTHON = """
import json, sys
from program import forward
for line in sys.stdin:
    session, method, target, body = json.loads(line)
    status, headers, body = forward(method, target, body.encode(), session["user"], session["installation"], session["over"])
    print(json.dumps([status, {name.lower(): value for name, value in headers.items()}, body.decode()]), flush=True)
"""
DRIVER_NODE = """
import { createInterface } from "node:readline";
import { forward } from "./program.mjs";
for await (const line of createInterface({ input: process.stdin })) {
  const [session, method, target, body] = JSON.parse(line);
  const answer = await forward(method, target, Buffer.from(body), session.user, session.installation, session.over);
  console.log(JSON.stringify([answer.status, answer.headers, answer.body.toString()]));
}
"""
requests = []


class Platform(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        requests.append((self.command, self.path, body, self.headers.get("Authorization")))
        answer = b'{"number": 4711}'
        wanted = re.search(r"/activities/answer(\d+)$", self.path)
        self.send_response(int(wanted[1]) if wanted else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", "7")
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def check(language, command, url):
    """The driver reads a case a line, and prints the answer."""
    faults = []
    environment = {**os.environ, "PUSH_URL": url, "PUSH_KEY": "psh_test", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as driver:
        def ask(session, method, target, body):
            requests.clear()
            driver.stdin.write(json.dumps([session, method, target, body]) + "\n")
            driver.stdin.flush()
            return json.loads(driver.stdout.readline() or "[0, {}, null]")

        for session, method, target, body, wanted in CASES:
            status, headers, text = ask(session, method, target, body)
            words = f"{language}: {method} {target[-60:]!r} {body[:60]} in {session}"
            if status != wanted:
                faults.append(f"{words}: {status} instead of {wanted}")
            elif wanted in (200, 409):
                got = requests[0] if len(requests) == 1 else (None, None, "", None)
                same = (json.loads(got[2]) if got[2] else None) == (json.loads(body) if body else None)
                if got[:2] != (method, target) or not same or got[3] != "Bearer psh_test":
                    faults.append(f"{words}: the platform got {requests}")
                if headers.get("retry-after") != "7" or "4711" not in text:
                    faults.append(f"{words}: the platform's answer became {headers} {text}")
            elif requests:
                faults.append(f"{words}: the platform got {requests}")
        status = ask(ADA, "PUT", HERE, TWICE)[0]
        if status == 200 and requests[0][2].count("user") != 1:
            faults.append(f"{language}: it sent two users: {requests}")
        if ask(ADA, "DELETE", HERE + "/activities/answer302", "")[0] != 302 or len(requests) != 1:
            faults.append(f"{language}: it followed a redirect with the key: {requests}")
        for refused in (401, 403):
            status, headers, text = ask(ADA, "DELETE", HERE + f"/activities/answer{refused}", "")
            if status != 503 or len(requests) != 1 or "platform_refused" not in (text or ""):
                faults.append(f"{language}: the platform's {refused} to the key became {status} {headers} {text}")
        driver.stdin.close()
        driver.wait()
        log.seek(0)
        lines = log.read()
        if not all(f"The platform refuses PUSH_KEY: {refused} " in lines for refused in (401, 403)) or "psh_" in lines:
            faults.append(f"{language}: its operator reads {lines!r}")
    return faults


def run():
    with open(os.path.join(ROOT, "docs/guides/forwarding.md"), encoding="utf-8") as file:
        page = file.read()
    blocks = {name: re.search(rf"```{name}\n(.*?)```", page, re.S)[1] for name in ("python", "js")}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Platform)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("program.py", blocks["python"]), ("driver.py", DRIVER_PYTHON), ("program.mjs", blocks["js"]), ("driver.mjs", DRIVER_NODE)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        faults += check("Python", [sys.executable, os.path.join(folder, "driver.py")], url)
        if shutil.which("node"):
            faults += check("Node", ["node", os.path.join(folder, "driver.mjs")], url)
        else:
            print("forwarding: there is no node here: the Node program was not tried")
    for line in faults:
        print(line, file=sys.stderr)
    if faults:
        sys.exit(f"forwarding: {len(faults)} faults")
    print(f"forwarding: {len(CASES)} cases hold")


run()
