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
    def __init__(self, control, push, management, credentials):
        self.control, self.push_url, self.management_url = control, push, management
        self.credentials = pathlib.Path(credentials)
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

    def push(self, *tokens, topic="com.example.shop", kind="alert", priority=None, **aps):
        """One connection for all tokens; each push must be accepted."""
        payload = json.dumps({"aps": aps})
        arguments = []
        for token in tokens:
            arguments += [f"{self.push_url}/3/device/{token}", "-o", "/dev/null"]
        answer = subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", self.credentials / "ca.crt", "-H", self.authorization, "-H", f"apns-topic: {topic}",
             "-H", f"apns-push-type: {kind}", *(["-H", f"apns-priority: {priority}"] if priority else []), "-d", payload, "-w", "%{http_code}\\n", *arguments], capture_output=True, text=True, check=True)
        if answer.stdout.split() != ["200"] * len(tokens):
            raise RuntimeError(f"pushes were answered {answer.stdout.split()}")

    def activity(self, token, name):
        """An activity of a device; None if the device does not remember it."""
        found = self.call("GET", f"/v1/devices/{token}/activities")["activities"]
        return next((activity for activity in found if activity["id"] == name), None)

    def channel(self, app="com.example.shop"):
        """Makes a channel that keeps the newest broadcast; returns its id."""
        answer = self.request(
            f"{self.management_url}/1/apps/{app}/channels", "-d", '{"message-storage-policy":1,"push-type":"LiveActivity"}', "-D", "-")
        return next(line.split(": ")[1] for line in answer.splitlines() if line.startswith("apns-channel-id: "))

    def broadcast(self, channel, app="com.example.shop", **aps):
        answer = self.request(
            f"{self.push_url}/4/broadcasts/apps/{app}", "-H", f"apns-channel-id: {channel}", "-H", "apns-push-type: liveactivity", "-d",
            json.dumps({"aps": aps}), "-w", "%{http_code}")
        if answer != "200":
            raise RuntimeError(f"a broadcast was answered {answer}")

    def request(self, url, *arguments):
        return subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", self.credentials / "ca.crt", "-H", self.authorization, url, *arguments],
            capture_output=True, text=True, check=True).stdout
