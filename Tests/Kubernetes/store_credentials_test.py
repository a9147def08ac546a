"""Tries deploy/kubernetes/overlays/demo/store-credentials.sh against a server that stands in for the API of Kubernetes.

    store_credentials_test.py FOLDER      for its files
"""

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading

from reference import ROOT

SCRIPT = os.path.join(ROOT, "deploy/kubernetes/overlays/demo/store-credentials.sh")
EXPECTED = {
    "administrator": {"admin.key"},
    "postgresql-service": {"password"},
    "rabbitmq-token-service": {"password", "account.conf"},
    "apns-credentials": {
        "credentials.json", "AuthKey_DEMO123456.p8", "AuthKey_DEMO123456.pub", "ca.crt", "simulator.crt", "simulator.key",
        "simulator-keys.json"},
}
stored, requests = {}, []


class API(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    refusal = None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        requests.append((self.path, self.headers["Authorization"]))
        status, name = API.refusal or 201, body["metadata"]["name"]
        if status == 201 and name in stored:
            status = 409
        if status == 201:
            stored[name] = {key: base64.b64decode(value, validate=True).decode() for key, value in body["data"].items()}
        answer = json.dumps({"kind": "Status", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def authority(folder, name):
    """A certificate of kubernetes.default.svc that signs itself."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=kubernetes", "-addext", "subjectAltName=DNS:kubernetes.default.svc",
         "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt"],
        check=True, capture_output=True)


def expect(is_true, text):
    if not is_true:
        sys.exit(f"store_credentials_test.py: {text}")


def main():
    folder = sys.argv[1]
    account, programs, temporary = (os.path.join(folder, name) for name in ("account", "programs", "temporary"))
    for path in (account, programs, temporary):
        os.makedirs(path)
    authority(account, "ca")
    authority(folder, "other")
    for name, text in (("namespace", "push"), ("token", "the-token")):
        with open(f"{account}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    os.symlink(os.path.join(ROOT, "deploy/scripts/make-credentials.sh"), f"{programs}/make-credentials")
    with open(f"{programs}/pushctl", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\n[ "$*" = "keys generate" ] && echo an-administrators-key\n')
    os.chmod(f"{programs}/pushctl", 0o755)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), API)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{account}/ca.crt", f"{account}/ca.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def run():
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}", "PUSHCTL": "pushctl", "SERVICE_ACCOUNT": account, "TMPDIR": temporary,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port)}
        return subprocess.run(["bash", SCRIPT], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    first = run()
    expect(first.returncode == 0, f"the first run failed: {first.stderr}")
    expect({name: set(data) for name, data in stored.items()} == EXPECTED, f"it stored {stored.keys()}")
    expect(all(each == ("/api/v1/namespaces/push/secrets", "Bearer the-token") for each in requests), f"it asked {requests}")
    password = stored["rabbitmq-token-service"]["password"].strip()
    expect(f"default_pass = {password}\n" in stored["rabbitmq-token-service"]["account.conf"], "the server's password is another one")
    expect(len(password) == 48 and password != stored["postgresql-service"]["password"].strip(), "the passwords are not made by chance")
    expect(stored["administrator"]["admin.key"] == "an-administrators-key\n", "admin.key is not pushctl's")
    expect(os.listdir(temporary) == [], "it left keys behind")

    before = json.dumps(stored)
    second = run()
    expect(second.returncode == 0 and second.stdout.count("exists and stays") == len(EXPECTED), f"the second run: {second.stderr}")
    expect(json.dumps(stored) == before, "the second run changed a Secret")

    API.refusal = 403
    refused = run()
    expect(refused.returncode == 1 and "did not store the Secret administrator: HTTP/1.1 403" in refused.stderr, "a refusal passed unseen")

    count = len(requests)
    os.replace(f"{folder}/other.crt", f"{account}/ca.crt")
    strange = run()
    expect(strange.returncode == 1 and len(requests) == count, "it gave the token to a server with a strange certificate")
    server.shutdown()
    print("store-credentials.sh: stores, keeps, and tells a refusal")


main()
