"""The simulator as the page's test uses it: devices over the control API, pushes over HTTP/2 with curl."""

import base64
import http.client
import json
import pathlib
import subprocess
import time
import urllib.parse


def encoded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class World:
    def __init__(self, control, push, credentials):
        self.control, self.push_url, self.credentials = control, push, pathlib.Path(credentials)
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(control).netloc, timeout=30)
        text = encoded(b'{"alg":"ES256","kid":"DEMO123456"}') + "." + encoded(b'{"iss":"TEAM123456","iat":%d}' % time.time())
        key = self.credentials / "AuthKey_DEMO123456.p8"
        # The simulator takes a DER signature as well, as APNs does.
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text.encode(), capture_output=True, check=True).stdout
        self.authorization = f"authorization: bearer {text}.{encoded(signed)}"

    def call(self, method, path, content=None):
        self.connection.request(method, path, None if content is None else json.dumps(content))
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {body.decode()}")
        return json.loads(body) if body else None

    def device(self, token, name=None, **state):
        return self.call("PUT", f"/v1/devices/{token}", {"environment": "production", **({"name": name} if name else {}), **state})

    def state(self, token):
        return self.call("GET", f"/v1/devices/{token}")

    def push(self, *tokens, topic="com.example.shop", kind="alert", **aps):
        """One connection for all tokens; each push must be accepted."""
        payload = json.dumps({"aps": aps})
        arguments = []
        for token in tokens:
            arguments += [f"{self.push_url}/3/device/{token}", "-o", "/dev/null"]
        answer = subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", self.credentials / "ca.crt", "-H", self.authorization, "-H", f"apns-topic: {topic}",
             "-H", f"apns-push-type: {kind}", "-d", payload, "-w", "%{http_code}\\n", *arguments], capture_output=True, text=True, check=True)
        if answer.stdout.split() != ["200"] * len(tokens):
            raise RuntimeError(f"pushes were answered {answer.stdout.split()}")
