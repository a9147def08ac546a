"""What scrape_test.py causes, so that the series of rare events are there too: each function is one cause."""

import http.client
import http.server
import json
import subprocess
import threading
import time
import urllib.parse
import uuid

DEADLINE = 40
ALERT = {"aps": {"alert": "Hello"}}


class Service:
    def __init__(self, url, key=None):
        self.address, self.key = urllib.parse.urlsplit(url).netloc, key

    def request(self, method, path, content=None, headers=()):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        fields = {"Content-Type": "application/json", **dict(headers)}
        if self.key:
            fields["Authorization"] = f"Bearer {self.key}"
        connection.request(method, path, None if content is None else json.dumps(content), fields)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def call(self, method, path, content=None, headers=()):
        status, body = self.request(method, path, content, headers)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {body.decode()}")
        return json.loads(body) if body else None


def until(sentence, condition):
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {DEADLINE} s: {sentence}")
        time.sleep(0.1)
    return found


class World:
    def __init__(self, push, admin_key, simulator, database):
        self.admin, self.simulator, self.database = Service(push, admin_key), Service(simulator), database
        self.push = push
        for slug in ("shop", "orphan"):
            self.admin.call("POST", "/v1/admin/apps", {
                "slug": slug, "bundle_id": f"com.example.{slug}", "device_policy": "multi", "environments": ["production", "sandbox"]})
        self.shop, self.orphan = (self.service(slug) for slug in ("shop", "orphan"))

    def service(self, app, **more):
        key = self.admin.call("POST", "/v1/admin/keys", {"app": app, "name": app, "scopes": ["devices", "send", "read", "admin"], **more})
        return Service(self.push, key["key"])

    def device(self, user, environment="production", app="shop", really=None, answers=()):
        """A device of the user; `really` is the environment that APNs knows, and `answers` are its next answers."""
        token, installation = uuid.uuid4().hex, str(uuid.uuid4())
        self.simulator.call("PUT", f"/v1/devices/{token}", {"environment": really or environment, "state": "installed"})
        if answers:
            self.simulator.call("PUT", f"/v1/devices/{token}/script", {"answers": list(answers)})
        self.shop_of(app).call("PUT", f"/v1/apps/{app}/installations/{installation}", {
            "user": user, "tokens": [{"token": token, "environment": environment}]})
        return installation

    def shop_of(self, app):
        return self.shop if app == "shop" else self.orphan

    def send(self, to, app="shop", headers=(), **more):
        return self.shop_of(app).call("POST", f"/v1/apps/{app}/notifications", {"to": to, "payload": ALERT, **more}, headers)["id"]

    def notification(self, identifier):
        return self.shop.call("GET", f"/v1/apps/shop/notifications/{identifier}")

    def counts(self, identifier, outcome):
        return self.notification(identifier).get("counts", {}).get(outcome, 0)


def traffic(world):
    """One notification in each lane, in both environments."""
    for to in ({"user": "ada"}, {"users": ["ada", "grace"]}, {"all": True}):
        identifier = world.send(to)
        # A later device of another cause would be in the audience too.
        until("a notification is not completed", lambda: world.notification(identifier)["state"] == "completed")


def answers_of_apns(world):
    """MAXIMUM_ATTEMPTS is 2 here, so a delivery fails with the second fault of the server."""
    fault = {"status": 500, "reason": "InternalServerError"}
    ends = {
        "token_gone": [{"status": 410, "reason": "Unregistered", "timestamp_ms": int(time.time() * 1000) + 60_000}],
        "rejected": [{"status": 400, "reason": "PayloadTooLarge"}],
        "failed": [fault, fault],
        "accepted": [{"status": 429, "reason": "TooManyRequests"}],
    }
    sent = {}
    for outcome, answers in ends.items():
        world.device(f"user-{outcome}", answers=answers)
        sent[outcome] = world.send({"user": f"user-{outcome}"})
    for outcome, identifier in sent.items():
        until(f"the outcome of a push that APNs answers {ends[outcome]} is not {outcome}", lambda: world.counts(identifier, outcome))


def wrong_clock(world):
    """In the sandbox, so that production goes on."""
    world.device("clock", "sandbox", answers=[{"status": 403, "reason": "ExpiredProviderToken"}])
    identifier = world.send({"user": "clock"})
    until("a push after a refused provider token does not arrive", lambda: world.counts(identifier, "accepted"))


def wrong_environment(world):
    world.device("elsewhere", "production", really="sandbox")
    identifier = world.send({"user": "elsewhere"})
    until("a push to the wrong environment gets no outcome", lambda: world.notification(identifier)["state"] == "completed")


def no_credential(world):
    world.device("ada", app="orphan")
    world.send({"user": "ada"}, app="orphan")


def dead_letters(world):
    until("a failed push leaves no dead letter", lambda: world.admin.call("GET", "/v1/admin/dead-letters")["letters"])
    world.admin.call("POST", "/v1/admin/dead-letters/drop", {"all": True})


def goaway(world):
    world.simulator.call("POST", "/v1/commands", {"command": "goaway", "reason": "Shutdown"})


def hold(world):
    held = world.shop.call("POST", "/v1/apps/shop/holds", {"lane": "bulk", "reason": "the test of the metrics"})
    identifier = world.send({"all": True})
    world.shop.call("DELETE", f"/v1/apps/shop/holds/{held['id']}")
    until("a held notification does not go on", lambda: world.notification(identifier)["state"] == "completed")


def too_many_requests(world):
    slow = world.service("shop", requests_per_second=1)
    until("a key above its limit gets no 429", lambda: slow.request("GET", "/v1/apps/shop/notifications")[0] == 429)


def overload(world):
    """HTTP_MAX_CONCURRENT_STREAMS is 1: while one import waits for its next line, there is no room for one of another key."""
    path, kind = "/v1/apps/shop/import", "application/x-ndjson"
    first = http.client.HTTPConnection(world.shop.address, timeout=30)
    first.putrequest("POST", path)
    for name, value in (("Authorization", f"Bearer {world.shop.key}"), ("Content-Type", kind), ("Transfer-Encoding", "chunked")):
        first.putheader(name, value)
    first.endheaders()
    until("an import does not begin", lambda: b"push_token_service_http_streams_in_progress 1\n" in world.shop.request("GET", "/metrics")[1])
    status, _ = world.service("shop").request("POST", path, headers={"Content-Type": kind})
    if status != 503:
        raise RuntimeError(f"a second import is answered {status}, expected 503")
    first.send(b"0\r\n\r\n")
    first.getresponse().read()
    first.close()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers as the path says: /200, /410, /500."""

    def do_POST(self):  # noqa: N802 (the name of the library)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def webhooks(world):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver = f"http://127.0.0.1:{server.server_port}"
    made = [world.shop.call("POST", "/v1/apps/shop/webhooks", {"url": f"{receiver}/{status}", "events": ["*"]})["id"]
            for status in (200, 410, 500)]
    for identifier in made:
        world.shop.call("POST", f"/v1/apps/shop/webhooks/{identifier}/ping")
    until("a webhook that is gone is not disabled", lambda: not world.shop.call("GET", f"/v1/apps/shop/webhooks/{made[1]}")["enabled"])
    until("a message that a webhook refuses is not given up",
          lambda: world.shop.call("GET", f"/v1/apps/shop/webhooks/{made[2]}/messages?state=failed")["messages"])


def stale_installation(world):
    """The housekeeping removes it; it has a round each second here."""
    installation = world.device("asleep")
    world.admin.call("PATCH", "/v1/admin/apps/shop", {"stale_after_days": 30, "removes_stale": True})
    subprocess.run(["psql", "-qX", world.database, "-c",
                    f"UPDATE installations SET registered_at = registered_at - interval '1 year' WHERE id = '{installation}'"], check=True)
    path = f"/v1/apps/shop/installations/{installation}"
    until("a stale installation is not removed", lambda: world.shop.request("GET", path)[0] == 404)


def logout(world):
    installation = world.device("guest")
    world.shop.call("POST", f"/v1/apps/shop/installations/{installation}/logout", {})


def channel(world):
    world.shop.call("PUT", "/v1/apps/shop/channels/match-17", {"environment": "production", "storage": "latest"})


def live_activity(world):
    path = f"/v1/apps/shop/installations/{world.device('rider')}/activities/ride-4711"
    world.shop.call("PUT", path, {"token": uuid.uuid4().hex})
    # The third of them replaces the second.
    updates = [{"to": {"user": "rider", "activity": "ride-4711"}, "content": {"event": "update", "content_state": {"eta": eta}}} for eta in (3, 2, 1)]
    world.shop.call("POST", "/v1/apps/shop/notifications/batch", {"notifications": [{"notification": update} for update in updates]})
    world.shop.call("DELETE", path)


def cause_everything(world):
    for user in ("ada", "grace"):
        world.device(user)
        world.device(user, "sandbox")
    traffic(world)
    for cause in (answers_of_apns, no_credential, wrong_environment, dead_letters, webhooks, hold, too_many_requests, overload, logout,
                  channel, live_activity, stale_installation, goaway, wrong_clock):
        cause(world)
