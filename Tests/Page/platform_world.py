"""A platform as the console's test uses it: apps, keys, devices, notifications of every kind, and a receiver of webhooks."""

import http.client
import http.server
import json
import pathlib
import threading
import time
import urllib.parse
import uuid

HOSTILE = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"
PATIENCE = 30  # seconds until a wait becomes a failure


class Refused(RuntimeError):
    def __init__(self, status, text):
        super().__init__(f"{status} {text}")
        self.status = status


class Server:
    """JSON over HTTP, with a key or without."""

    def __init__(self, url, key=None):
        self.address, self.key = urllib.parse.urlsplit(url).netloc, key

    def call(self, method, path, content=None):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        connection.request(method, path, None if content is None else json.dumps(content), headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, f"{method} {path}: {body}")
        return json.loads(body) if body else None


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers the path's number: /500 fails, /410 wants no more, /200 is fine."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class PlatformWorld:
    def __init__(self, push, simulator, key_file):
        admin = Server(push, pathlib.Path(key_file).read_text().strip())
        self.admin, self.push, self.simulator, self.tokens = admin, push, Server(simulator), 0
        # The kiosk is the same app at Apple as the shop: each finds the other's channels in Apple's list.
        for slug, bundle in (("shop", "shop"), ("cafe", "cafe"), ("kiosk", "shop")):
            admin.call("POST", "/v1/admin/apps", {
                "slug": slug, "bundle_id": f"com.example.{bundle}", "device_policy": "multi", "environments": ["production"]})
        self.operator = self.key("operator of the night", ["devices", "send", "read", "admin"])
        self.viewer = self.key("viewer " + HOSTILE, ["read"], "shop")
        self.everywhere = self.key("reader of every app", ["read"])
        self.service = Server(push, self.operator)
        self.receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()

    def close(self):
        self.receiver.shutdown()
        self.receiver.server_close()

    def key(self, name, scopes, app=None):
        return self.admin.call("POST", "/v1/admin/keys", {"name": name, "scopes": scopes, **({"app": app} if app else {})})["key"]

    def device(self, user, app="shop", state="installed", answers=None):
        """An installation of the user, whose device comes into the state then; without a state the simulator does not know the device."""
        self.tokens += 1
        token, id = f"{self.tokens:02x}" * 32, str(uuid.uuid4())
        if answers:
            self.simulator.call("PUT", f"/v1/devices/{token}/script", {"answers": answers})
        self.register(id, token, user, app)
        # A token that is registered after the app was removed stays: APNs' timestamp is older then.
        if state:
            self.simulator.call("PUT", f"/v1/devices/{token}", {"environment": "production", "state": state})
        return id, token

    def register(self, id, token, user, app="shop", more=()):
        self.service.call("PUT", f"/v1/apps/{app}/installations/{id}", {
            "user": user, "tokens": [{"token": token, "environment": "production"}, *more], "device_model": "iPhone17,1", "app_tags": ["beta"]})

    def phone(self, user):
        """An installation whose device can start Live Activities."""
        id, token = self.device(user)
        start_token = f"57{self.tokens:02x}" * 20
        self.simulator.call("PUT", f"/v1/devices/{token}", {
            "environment": "production", "state": "installed", "start_tokens": [{"attributes_type": "Ride", "token": start_token}]})
        self.register(id, token, user, more=[{"token": start_token, "purpose": "activity_start:Ride"}])
        return id, token

    def start(self, to, activity, **content):
        self.service.call("POST", "/v1/apps/shop/notifications", {"to": to, "activity": activity, "content": {
            "event": "start", "attributes_type": "Ride", "attributes": {"id": activity}, "content_state": {"eta": 12},
            "alert": "On the way", **content}})

    def update(self, user, activity, **content):
        return self.service.call("POST", "/v1/apps/shop/notifications", {
            "to": {"user": user, "activity": activity}, "content": {"event": "update", "content_state": {"eta": 9}, **content}})["id"]

    def on_screen(self, token, activity):
        """The Live Activity as the device has it; None: not yet."""
        found = self.simulator.call("GET", f"/v1/devices/{token}/activities")["activities"]
        return next((each for each in found if each["id"] == activity), None)

    def report_activity(self, phone, activity):
        id, token = phone
        self.until(lambda: self.on_screen(token, activity), f"{activity} does not start on the device")
        self.service.call("PUT", f"/v1/apps/shop/installations/{id}/activities/{urllib.parse.quote(activity, safe='')}", {
            "token": self.on_screen(token, activity)["update_token"]})

    def channel(self, name, app="shop"):
        """A channel that is open, by Apple's id."""
        opened = self.service.call("PUT", f"/v1/apps/{app}/channels/{urllib.parse.quote(name, safe='')}", {
            "environment": "production", "storage": "latest"})
        assert opened["state"] == "open", opened
        return opened["channel_id"]

    def channels_at_apple(self):
        return {each["channel_id"] for each in self.simulator.call("GET", "/v1/channels")["channels"]}

    def send(self, to, app="shop", **fields):
        return self.service.call("POST", f"/v1/apps/{app}/notifications", {
            "to": to, "payload": {"aps": {"alert": {"title": "Hello " + HOSTILE, "body": "Your order is on its way."}}}, **fields})["id"]

    def report(self, notification, installation, *events):
        receipts = [{"notification": notification, "job": 0, "event": event, "at": "2026-11-26T10:00:00Z"} for event in events]
        answer = self.service.call("POST", f"/v1/apps/shop/installations/{installation}/receipts", {"receipts": receipts})
        assert answer["counted"] == len(events), answer

    def status(self, id, app="shop"):
        return self.service.call("GET", f"/v1/apps/{app}/notifications/{id}")

    def settled(self, *ids, app="shop"):
        for id in ids:
            self.until(lambda: self.status(id, app)["state"] == "completed", f"notification {id} did not end")

    def webhook(self, answer, description):
        return self.service.call("POST", "/v1/apps/shop/webhooks", {
            "url": f"http://127.0.0.1:{self.receiver.server_port}/{answer}", "events": ["notification.*"],
            "description": description})["id"]

    @staticmethod
    def until(is_so, otherwise):
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(otherwise)
            time.sleep(0.05)
