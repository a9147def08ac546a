"""A generated client of the token service, used as a backend uses it, against a private platform.

generated_client_test.py DOCUMENT PUSH_URL SIMULATOR_URL KEY_FILE

The checks build on one another. check-generated-client.sh generates the package push_client from DOCUMENT and runs this.
"""

import datetime
import importlib
import json
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import time
import urllib.request
import uuid

import attrs
import httpx
import push_client.api
from push_client import AuthenticatedClient
from push_client.api.apps import change_app, create_app
from push_client.api.finding_notifications import explain_notification, list_deliveries
from push_client.api.holds import set_hold
from push_client.api.installations import (
    change_installation, deregister_installation, log_out_installation, make_device_credential, read_installation,
    read_installation_history, register_installation)
from push_client.api.keys import create_key, read_key
from push_client.api.notifications import read_notification, send_notification, send_notifications, validate_notification
from push_client.api.users import list_user_installations, log_out_user, set_quiet_hours
from push_client.api.webhooks import create_webhook
from push_client.models import (
    Alert, AppChange, BatchItem, Content, ExpectedOwner, InstallationChange, NewApp, NewAppDevicePolicy, NewAppEnvironmentsItem,
    NewDeviceCredential, NewHold, NewKey, NewKeyScopesItem, NewNotification, NewQuietHours, NewToken, NewWebhook, NotificationBatch,
    NotificationState, Registration, UserTarget)
from push_client.types import UNSET

APP, USER = "shop", "ada"
PATIENCE = 30  # seconds until a wait becomes a failure
GUIDE = pathlib.Path(__file__).parents[2] / "docs/guides/generated-client.md"

document_file, push, simulator, key_file = sys.argv[1:]
tokens = {uuid.uuid4(): "a1" * 32, uuid.uuid4(): "b2" * 32}  # installation: device token
phone, tablet = tokens
clients = {}  # administrator, backend, reader, device
sent = []  # ids of notifications
deliveries = {}  # id: installation


class Failure(Exception):
    pass


def expect(condition, sentence):
    if not condition:
        raise Failure(sentence)


def snake(words):
    """The generator's name for a tag or an operation."""
    return re.sub(r"[ A-Z]", lambda each: "_" + each[0].strip().lower(), words).replace("__", "_").strip("_")


# Answers


def undescribed(value, place=""):
    """Fields of an answer that the generated class does not know: the document lacks them, or has them under another name."""
    if isinstance(value, list):
        return [name for index, item in enumerate(value) for name in undescribed(item, f"{place}/{index}")]
    if not attrs.has(type(value)):
        return []
    names = [field.name for field in attrs.fields(type(value)) if field.name != "additional_properties"]
    more = getattr(value, "additional_properties", {})
    if not names:  # the generated class of a map: the names are data
        return [name for key, item in more.items() for name in undescribed(item, f"{place}/{key}")]
    return [f"{place}/{key}" for key in more] + [name for each in names for name in undescribed(getattr(value, each), f"{place}/{each}")]


def parsed(answer, status, what):
    """The body of an answer that has this status and is described in full."""
    expect(answer.status_code == status, f"{what}: {answer.status_code} {answer.content.decode()[:500]}, expected {status}")
    strangers = undescribed(answer.parsed)
    expect(not strangers, f"{what}: the document does not describe {strangers}")
    return answer.parsed


def problem(answer, status, code, what):
    """A problem document, as an instance of a generated class."""
    found = parsed(answer, status, what)
    expect(type(found).__module__.startswith("push_client.models.") and found.code == code and found.status == status,
           f"{what}: {found}, expected the problem {code}")
    return found


def client(key):
    # Without a timeout the generated client would wait for ever. A status that the document does not list raises.
    return AuthenticatedClient(base_url=push, token=key, timeout=httpx.Timeout(PATIENCE), raise_on_unexpected_status=True)


def completed(id):
    """The notification, when nothing of it is left to do."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = parsed(read_notification.sync_detailed(APP, id, client=clients["backend"]), 200, "reading a notification")
        if found.state == NotificationState.COMPLETED:
            return found
        expect(time.monotonic() < deadline, f"notification {id} is {found.state} with {found.counts}, not completed")
        time.sleep(0.05)


def to_user(text, **fields):
    return NewNotification(to=UserTarget(user=USER), content=Content(alert=Alert(title="Shop", body=text)), **fields)


# The checks


def modules():
    """Each operation of the document has a module that Python can import. The generator has none for a body of lines."""
    found = set()
    for module in pkgutil.walk_packages(push_client.api.__path__, "push_client.api."):
        importlib.import_module(module.name)
        found.add(module.name.rpartition(".")[2])
    document = json.loads(pathlib.Path(document_file).read_text())
    wanted = {snake(operation["operationId"]) for methods in document["paths"].values() for operation in methods.values()}
    expect(wanted - found == {"import_installations"}, f"the client lacks {sorted(wanted - found)}")


def app_and_keys():
    administrator = clients["administrator"] = client(pathlib.Path(key_file).read_text().strip())
    made = parsed(create_app.sync_detailed(client=administrator, body=NewApp(
        slug=APP, bundle_id="com.example.shop", device_policy=NewAppDevicePolicy.MULTI,
        environments=[NewAppEnvironmentsItem.PRODUCTION])), 201, "making an app")
    expect(made.slug == APP and made.environments == ["production"], f"the app is {made}")
    changes = ((AppChange(stale_after_days=90), 90), (AppChange(removes_stale=True), 90), (AppChange(stale_after_days=None), None))
    for change, days in changes:
        changed = parsed(change_app.sync_detailed(APP, client=administrator, body=change), 200, "changing an app")
        expect(changed.stale_after_days == days, f"after {change} the app is {changed}")
    for name, scopes in (("backend", ["devices", "send", "read", "admin"]), ("reader", ["read"])):
        key = parsed(create_key.sync_detailed(client=administrator, body=NewKey(
            name=name, app=APP, scopes=[NewKeyScopesItem(scope) for scope in scopes])), 201, "making a key")
        clients[name] = client(key.key)
        own = parsed(read_key.sync_detailed(client=clients[name]), 200, "reading one's own key")
        expect((own.id, own.name, own.app, own.scopes) == (key.id, name, APP, scopes), f"the key is {own}")


def registration():
    """The backend registers the phone. The tablet's app registers by itself, with a device credential."""
    made = parsed(make_device_credential.sync_detailed(APP, client=clients["backend"], body=NewDeviceCredential(
        installation=tablet, user=USER)), 201, "making a device credential")
    clients["device"] = client(made.credential)
    for id, who in ((phone, "backend"), (tablet, "device")):
        parsed(register_installation.sync_detailed(APP, id, client=clients[who], body=Registration(
            user=USER, tokens=[NewToken(token=tokens[id])], app_tags=["beta"], locale="de-DE")), 201, f"registering by the {who}")
    answer = read_installation.sync_detailed(APP, phone, client=clients["backend"])
    found = parsed(answer, 200, "reading an installation")
    expect((found.id, found.user, found.app_tags, [token.hint for token in found.tokens])
           == (phone, USER, ["beta"], ["…" + tokens[phone][-6:]]),
           f"the installation is {found}")
    again = read_installation.sync_detailed(APP, phone, client=clients["backend"], if_none_match=answer.headers["ETag"])
    expect(parsed(again, 304, "reading it again") is None, "304 has a body")
    changed = parsed(change_installation.sync_detailed(
        APP, phone, client=clients["backend"], body=InstallationChange(locale=None), if_match=answer.headers["ETag"]), 200, "changing it")
    expect((changed.locale, changed.user) == (UNSET, USER), f"the changed installation is {changed}")
    history = parsed(read_installation_history.sync_detailed(APP, phone, client=clients["backend"]), 200, "reading the history")
    expect(history.entries, "the installation has no history")


def sending():
    expiry = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(hours=1)
    wanted = to_user("Your order is packed", collapse_id="order-4711", expires_at=expiry)
    audience = parsed(validate_notification.sync_detailed(APP, client=clients["backend"], body=wanted), 200, "validating")
    expect(audience.audience.deliveries == 2, f"the audience is {audience}")
    key = str(uuid.uuid4())
    send = lambda body: send_notification.sync_detailed(APP, client=clients["backend"], body=body, idempotency_key=key)
    first, second = send(wanted), send(wanted)
    receipt = parsed(first, 202, "sending")
    expect(receipt.deliveries == 2 and receipt.expires_at == expiry, f"the receipt is {receipt}")
    expect(parsed(second, 202, "sending again").id == receipt.id, "the same key makes a second notification")
    expect((first.headers.get("Idempotency-Replay"), second.headers.get("Idempotency-Replay")) == (None, "true"),
           "a repeated answer does not say so")
    problem(send(to_user("Another text")), 422, "idempotency_key_reused", "another body with the same key")
    sent.append(receipt.id)


def faults():
    """Faults of one body come as a list, each with a pointer. In a batch each item has its own."""
    wrong = NewNotification(to=UserTarget(user=USER), content=Content(alert="Hello", badge=-1), ttl_seconds=0)
    answer = send_notification.sync_detailed(APP, client=clients["backend"], body=wrong)
    found = problem(answer, 400, "invalid_request", "sending faults")
    pointers = {fault.pointer for fault in found.errors}
    expect(pointers == {"/content/badge", "/ttl_seconds"} and not found.retryable, f"the problem is {found}")
    batch = NotificationBatch([BatchItem(notification=to_user("It leaves tonight")), BatchItem(notification=wrong)])
    accepted, refused = parsed(
        send_notifications.sync_detailed(APP, client=clients["backend"], body=batch), 202, "sending a batch").results
    expect(refused.code == "invalid_request" and refused.errors, f"the second result is {refused}")
    sent.append(accepted.id)


def following():
    for id in sent:
        found = completed(id)
        expect((found.counts.total, found.counts.accepted, found.counts.pending) == (2, 2, 0), f"the notification ended as {found.counts}")
        cursor, pages = {}, 0
        while cursor is not None:
            page = parsed(list_deliveries.sync_detailed(APP, id, client=clients["reader"], limit=1, **cursor), 200, "listing deliveries")
            expect(len(page.deliveries) <= 1, f"a page of one has {len(page.deliveries)} deliveries")
            expect(all(each.state == "accepted" and each.status == 200 for each in page.deliveries), f"the deliveries are {page}")
            deliveries.update({each.id: each.installation for each in page.deliveries})
            cursor = {"cursor": page.next_cursor} if page.next_cursor else None
            pages += 1
        expect(pages >= 2, "two deliveries fit in one page of one")
    expect(sorted(deliveries.values()) == sorted(2 * list(tokens)), f"the deliveries are {deliveries}")
    why = parsed(explain_notification.sync_detailed(APP, sent[0], client=clients["reader"], user=USER), 200, "asking why")
    expect(why.conclusion and len(why.steps) > 2, f"the explanation is {why}")


def journal():
    """The simulator has had each delivery once."""
    with urllib.request.urlopen(f"{simulator}/v1/journal", timeout=PATIENCE) as answer:
        requests = json.load(answer)["requests"]
    arrived = sorted((entry["uuid"], entry["token"], entry["topic"]) for entry in requests)
    due = sorted((str(id), tokens[installation], "com.example.shop") for id, installation in deliveries.items())
    expect(arrived == due, f"APNs has had {arrived}, not {due}")


def guide():
    """The program of the guide does what it says."""
    program = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1]
    environment = {**os.environ, "PUSH_URL": push, "PUSH_KEY": clients["backend"].token}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    expect((done.returncode, done.stdout) == (0, "APNs accepted 3 of 3\n"), f"the guide's program prints {done.stdout}{done.stderr}")


def reading():
    """Each GET that needs no id answers what the document says. Before, the lists get something to show."""
    backend, values = clients["backend"], {"app": APP, "slug": APP, "user": USER}
    hold = NewHold(reason="the prices are wrong", all_=True, ttl_seconds=60)
    parsed(set_hold.sync_detailed(APP, client=backend, body=hold), 201, "setting a hold")
    parsed(set_quiet_hours.sync_detailed(APP, USER, client=backend, body=NewQuietHours("22:00", "07:00")), 200, "setting quiet hours")
    parsed(create_webhook.sync_detailed(APP, client=backend, body=NewWebhook(
        url=f"{push}/nowhere", events=["token.*"])), 201, "making a webhook")
    document, count = json.loads(pathlib.Path(document_file).read_text()), 0
    for path, methods in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        operation = methods.get("get")
        content = operation and operation["responses"]["200"]["content"]
        # The generator has no class for a stream of lines.
        if not operation or not set(names) <= set(values) or "application/x-ndjson" in content:
            continue
        module = importlib.import_module(f"push_client.api.{snake(operation['tags'][0])}.{snake(operation['operationId'])}")
        schema = next(iter(content.values())).get("schema", {})
        who = clients["administrator" if path.startswith("/v1/admin/") else "backend"]
        found = parsed(module.sync_detailed(*(values[name] for name in names), client=who), 200, f"GET {path}")
        wanted = schema["$ref"].rpartition("/")[2] if "$ref" in schema else {"string": "str"}.get(schema.get("type"), "NoneType")
        expect(type(found).__name__ == wanted, f"GET {path} is a {type(found).__name__}, not a {wanted}")
        count += 1
    expect(count >= 20, f"only {count} operations were read")
    print(f"    {count} GET operations")


def refusals():
    nowhere = uuid.uuid4()
    problem(read_notification.sync_detailed(APP, nowhere, client=clients["backend"]), 404, "not_found", "an unknown notification")
    answer = send_notification.sync_detailed(APP, client=clients["reader"], body=to_user("Hello"))
    problem(answer, 403, "forbidden", "sending without the scope")
    stranger = client("psh_" + "0" * 16 + "_" + "0" * 48)
    problem(read_installation.sync_detailed(APP, phone, client=stranger), 401, "unauthenticated", "an unknown key")


def signing_out():
    sign_out = lambda user: log_out_installation.sync_detailed(
        APP, phone, client=clients["backend"], body=ExpectedOwner(expected_user=user))
    problem(sign_out("grace"), 409, "owner_mismatch", "signing another user out")
    expect(parsed(sign_out(USER), 200, "signing out").signed_out is True, "the phone is not signed out")
    found = parsed(read_installation.sync_detailed(APP, phone, client=clients["backend"]), 200, "reading the signed-out installation")
    expect(found.user is None, f"{found.user} is signed in on the phone")
    # The tablet, and the device of the guide.
    everywhere = parsed(log_out_user.sync_detailed(APP, USER, client=clients["backend"]), 200, "signing out everywhere")
    expect(everywhere.signed_out == 2, f"signing out everywhere ends as {everywhere}")
    left = parsed(list_user_installations.sync_detailed(APP, USER, client=clients["backend"]), 200, "listing a user's installations")
    expect(left.installations == [], f"the user is signed in on {left.installations}")
    again = Registration(user=USER, tokens=[NewToken(token=tokens[tablet])])
    problem(register_installation.sync_detailed(APP, tablet, client=clients["device"], body=again), 403, "credential_revoked",
            "registering with the credential of a signed-out user")
    parsed(deregister_installation.sync_detailed(APP, phone, client=clients["backend"]), 204, "deregistering")


def main():
    for check in (modules, app_and_keys, registration, sending, faults, following, journal, guide, reading, refusals, signing_out):
        began = time.monotonic()
        try:
            check()
        except Failure as failure:
            sys.exit(f"generated_client_test: {check.__name__}: {failure}")
        except Exception as error:  # of the generated code, which could not read an answer
            error.add_note(f"generated_client_test: {check.__name__}: the generated client raised this")
            raise
        print(f"    {check.__name__} ({time.monotonic() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
