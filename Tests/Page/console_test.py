"""The token service's console in a headless Chromium.

console_test.py CONSOLE_URL PUSH_URL SIMULATOR_URL KEY_FILE WORK_FOLDER SCREENSHOT_FOLDER

The checks build on one another: an operator looks at everything, then changes it. check-console.sh runs this.
"""

import json
import pathlib
import sys
import time
import urllib.parse

from chromium import Chromium, Failure
from legibility import CONTRASTS
from platform_world import HOSTILE, PlatformWorld, Refused

DESKTOP, PHONE = (1280, 860), (390, 844)
EVE = "eve " + HOSTILE
RIDE, MATCH = "ride/4711 " + HOSTILE, "match/17 " + HOSTILE
AHEAD = "2099-01-01T00:00:00Z"

console, push, simulator, key_file, work, pictures = sys.argv[1:]
world, page = None, None
made = {}  # name: id of what the world has


def expect(condition, sentence):
    if not condition:
        raise Failure(sentence)


def picture(name):
    page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
    page.screenshot(pathlib.Path(pictures) / f"console-{name}.png")


def populate():
    """Notifications with every kind of end, before the page looks."""
    made["ada"], made["ada token"] = world.device("ada")
    world.device("ada")
    made["eve"], _ = world.device(EVE)
    made["gone"], _ = world.device("gus", state="uninstalled")
    world.device("rex", answers=[{"status": 413, "reason": "PayloadTooLarge"}])
    for name in ("dora", "dan", "dot"):
        world.device(name, answers=[{"status": 429, "reason": "TooManyRequests"}])
    hooks = {name: world.webhook(answer, name + " " + HOSTILE) for name, answer in (("fine", 200), ("failing", 500), ("gone", 410))}
    made.update({f"{name} hook": id for name, id in hooks.items()})
    for _ in range(52):
        world.send({"user": "no-one"})
    users = {"ada": "ada", "eve": EVE, "gus": "gus", "rex": "rex", "dora": "dora", "dan": "dan", "dot": "dot"}
    for name, user in users.items():
        made["to " + name] = world.send({"user": user}, device_receipts=name == "ada")
    world.settled(*(made["to " + name] for name in users))
    world.report(made["to ada"], made["ada"], "shown", "opened")
    # The platform retires the first dozen. The second dozen is too much: the brake puts the first one into quarantine.
    for dozen in range(2):
        for number in range(12):
            world.device(f"guest {dozen} {number}", app="cafe", state=None)
        world.settled(world.send({"all": True}, app="cafe"), app="cafe")
    made["hold"] = world.service.call("POST", "/v1/apps/shop/holds", {"lane": "bulk", "reason": "prices are wrong " + HOSTILE})["id"]
    made["held"] = world.send({"user": "ada"}, lane="bulk")
    made["later"] = world.send({"user": "ada"}, not_before=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
    letters = lambda: world.service.call("GET", "/v1/admin/dead-letters")["letters"]
    world.until(lambda: len(letters()) == 3, "no dead letters")
    of_notification = {letter["notification"]: letter["id"] for letter in letters()}
    made["letter"], made["last letter"] = of_notification[made["to dora"]], of_notification[made["to dot"]]
    world.until(lambda: world.service.call("GET", "/v1/apps/cafe/quarantine")["total"] > 0, "nothing is in quarantine")
    hook = lambda name: world.service.call("GET", f"/v1/apps/shop/webhooks/{made[name + ' hook']}")
    world.until(lambda: not hook("gone")["enabled"] and "last_failure" in hook("failing"), "the webhooks have had no message")
    made["user"] = "/apps/shop/users/" + page.evaluate(f"encodeURIComponent({json.dumps(EVE)})")
    populate_channels()
    populate_live_activities()


def populate_channels():
    """Channels in every state that lasts."""
    world.channel("match lost")
    broadcast = lambda enabled: world.simulator.call("PUT", "/v1/apps/com.example.shop/broadcast", {"enabled": enabled})
    broadcast(False)
    try:
        world.channel("match refused")
        raise Failure("Apple refuses the channel, and the platform does not")
    except Refused as refused:
        expect(refused.status == 409, f"a refused channel is answered {refused}")
    broadcast(True)
    made["match"], made["match 18"] = world.channel(MATCH), world.channel("match 18")
    made["foreign"] = world.channel("of the kiosk", app="kiosk")
    states = lambda: {each["state"] for each in world.service.call("GET", "/v1/apps/shop/channels")["channels"]}
    world.until(lambda: states() == {"open", "failed", "lost", "foreign"}, "the platform does not compare its channels with Apple's")


def populate_live_activities():
    liv, lou = world.phone("liv"), world.phone("lou")
    made["liv"], made["liv token"] = liv
    guest = world.phone(None)
    for activity, to, phone in (
            (RIDE, {"user": "liv"}, liv), ("ride-2", {"user": "liv"}, liv), ("ride-3", {"installation": guest[0]}, guest)):
        world.start(to, activity)
        world.report_activity(phone, activity)
    # The backend's clock is wrong.
    made["newest"] = world.update("liv", RIDE, timestamp=AHEAD)
    world.settled(made["newest"], world.update("liv", "ride-2", stale_date="2026-01-01T00:00:00Z"))
    # The app never reports its token, so its newest state waits.
    world.start({"user": "lou"}, "ride-4")
    made["waits"] = world.update("lou", "ride-4")
    world.start({"user": "lou"}, "watch-17", input_push_channel=made["match"])


def quoted(text):
    return urllib.parse.quote(text, safe="")


def places():
    """Every view that an operator has."""
    shop = "/apps/shop"
    return [
        "/", shop, shop + "/notifications", f"{shop}/notifications/{made['to gus']}", f"{shop}/notifications/{made['to ada']}/why?user=ada",
        shop + "/activities", f"{shop}/activities/{quoted(RIDE)}?user=liv", shop + "/activities/ride-4?user=lou", shop + "/channels",
        f"{shop}/channels/{quoted(MATCH)}",
        shop + "/installations", f"{shop}/installations/{made['gone']}", made["user"], shop + "/holds", "/apps/cafe/quarantine",
        shop + "/webhooks", f"{shop}/webhooks/{made['failing hook']}", "/holds", "/dead-letters", f"/dead-letters/{made['last letter']}",
        "/audit",
    ]


# What a person does


def go(place):
    """Follows a link to a place, and waits until the view has its answer."""
    page.evaluate(f"window.left = view.firstElementChild; location.hash = {json.dumps('#' + place)}")
    page.wait("view.firstElementChild !== left && !view.innerText.includes('Loading')", f"{place} does not appear")


def button(words, within="#view"):
    return f"[...document.querySelectorAll('{within} button')].find(each => each.textContent === {json.dumps(words)})"


def labelled(words):
    return f"[...document.querySelectorAll('#view label')].find(each => each.innerText.startsWith({json.dumps(words)}))"


def enter(label, text):
    field = labelled(label) + ".querySelector('input')"
    page.evaluate(f"{field}.focus(); {field}.select()")
    page.type(text)


def choose(label, value):
    page.evaluate(f"{labelled(label)}.querySelector('select').value = {json.dumps(value)}")


def slowly(milliseconds, offline=False):
    page.call("Network.emulateNetworkConditions", offline=offline, latency=milliseconds, downloadThroughput=-1, uploadThroughput=-1)


def sign_in(key):
    page.open(console)
    page.wait("document.querySelector('#view input[type=password]') === document.activeElement", "the page does not ask for a key")
    page.type(key)
    page.press("Enter")
    page.wait("!session.hidden && !view.innerText.includes('Loading')", "the key does not open the console")


def changes():
    """How many requests were no reading: GET, or a search, which is a POST because a token may not stand in a path."""
    return sum(event["request"]["method"] != "GET" and "/search" not in event["request"]["url"]
               for method, event in page.events if method == "Network.requestWillBeSent")


def act(words, question, done, within="#view"):
    """Presses a button three times: cancels the second question with Enter and with Escape, then agrees."""
    before = changes()
    page.wait(button(words, within), f"there is no button {words}")
    page.click(button(words, within))
    page.wait("document.querySelector('#question').open", f"{words} does not ask")
    asked = page.text("#question")
    for part in question:
        expect(part in asked, f"{words} asks {asked!r}, which does not say {part!r}")
    expect(page.evaluate("document.activeElement.id") == "question-no", f"{words}: Cancel is not the default")
    for _ in range(4):
        page.press("Tab")
        is_inside = page.evaluate("document.activeElement === document.body || question.contains(document.activeElement)")
        expect(is_inside, "the focus leaves the dialog")
    page.evaluate("document.querySelector('#question-no').focus()")
    page.press("Enter")
    page.wait("!document.querySelector('#question').open")
    page.click(button(words, within))
    page.wait("document.querySelector('#question').open")
    page.press("Escape")
    page.wait("!document.querySelector('#question').open", "Escape does not cancel")
    page.click(button(words, within))
    page.wait("document.querySelector('#question').open")
    page.click("document.querySelector('#question-yes')")
    page.wait(f"document.querySelector('#said[role=status]').innerText.includes({json.dumps(done)})", f"{words} does not say {done!r}")
    # The page makes one request at a time: whatever a cancelled question began stands before this one.
    expect(changes() == before + 1, f"{words} made {changes() - before} requests that change something")


# The checks


def signing_in():
    page.see(*DESKTOP)
    page.open(console)
    page.wait("document.title === 'Sign in · Push console'")
    picture("sign-in-light")
    for wrong, answer in (("open sesame", "no API key"), ("psh_" + "0" * 16 + "_" + "0" * 48, "No valid API key")):
        page.evaluate("document.querySelector('#view input').value = ''; document.querySelector('#view input').focus()")
        page.type(wrong)
        page.press("Enter")
        page.wait(f"document.querySelector('#failed[role=alert]').innerText.match(/wrong|{answer}/)", f"{wrong} is not refused in words")
        expect(page.evaluate("session.hidden && sections.hidden"), "a wrong key signs in")
    sign_in(world.operator)
    expect(page.text("#who").startswith("operator of the night (every app: "), "the page does not say who is signed in")
    stored = page.evaluate(
        "(async () => [localStorage.length, sessionStorage.length, document.cookie.length, (await indexedDB.databases()).length, "
        "(await caches.keys()).length])()")
    expect(stored == [0] * 5, f"the page stores something: {stored}")
    everything = page.evaluate("document.documentElement.outerHTML + [...document.querySelectorAll('input')].map(each => each.value)")
    expect(world.operator not in everything, "the key stands in the page")
    page.open(console)
    page.wait("session.hidden && document.querySelector('#view input[type=password]').value === ''", "a reload keeps the key")
    sign_in(world.operator)
    page.click("document.querySelector('#sign-out')")
    page.wait("session.hidden && document.title === 'Sign in · Push console'", "sign out does not sign out")
    expect(page.evaluate("document.querySelectorAll('.card').length") == 0, "data stays after the end of the session")
    sign_in(world.operator)


def apps():
    page.wait("document.querySelectorAll('.card').length === 3 && document.querySelector('.card .chart rect')",
              "the apps are not listed with a chart")
    go("/apps/shop")
    expect(page.evaluate("document.title") == "shop · Push console", "the title does not follow")
    page.wait("['accepted', 'token gone', 'rejected', 'failed'].every(name => document.querySelector('.legend').innerText.includes(name))",
              "the legend lacks an outcome")
    words = page.evaluate("document.querySelector('.chart').getAttribute('aria-label')")
    expect(words.startswith("Outcomes of shop") and "accepted" in words, "the chart has no words")
    colours = page.evaluate("[...document.querySelectorAll('.chart rect')].map(each => getComputedStyle(each).fill)")
    expect(len(set(colours)) >= 3, "the outcomes have no colours of their own")
    expect("prices are wrong" in page.text("#view"), "a hold in force is not shown")
    rows = page.evaluate("[...document.querySelectorAll('th[scope=row]')].map(each => each.textContent)")
    expect({"now", "soon", "bulk"} <= set(rows), "a lane is missing")
    picture("app-light")


def notifications():
    go("/apps/shop/notifications")
    expect(page.evaluate("document.querySelectorAll('tbody tr').length") == 50, "a page has not 50 notifications")
    picture("notifications-light")
    page.click("[...document.querySelectorAll('.pages a')].find(each => each.textContent === 'Next page')")
    page.wait("location.hash.includes('cursor=') && document.querySelectorAll('tbody tr').length < 50",
              "there is no second page")
    page.wait("document.activeElement.id === 'heading'", "the focus does not move to the heading")
    page.evaluate("history.back()")
    page.wait("!location.hash.includes('cursor=') && document.querySelectorAll('tbody tr').length === 50",
              "back does not lead back")
    choose("State", "scheduled")
    page.click(button("Show"))
    page.wait("location.hash.includes('state=scheduled') && document.querySelectorAll('tbody tr').length === 1",
              "the filter does not filter")
    choose("State", "")
    page.click(button("Show"))
    page.wait("!location.hash.includes('state=') && document.querySelectorAll('tbody tr').length === 50", "the filter stays")
    ends = (("ada", "accepted", "200"), ("gus", "token gone", "Unregistered"), ("rex", "rejected", "PayloadTooLarge"))
    for name, outcome, reason in ends:
        go(f"/apps/shop/notifications/{made['to ' + name]}")
        page.wait(f"view.innerText.includes({json.dumps(outcome)}) && view.innerText.includes({json.dumps(reason)})",
                  f"how {name}'s ended is not shown")
    picture("notification-light")
    go(f"/apps/shop/notifications/{made['to ada']}")
    page.wait("view.innerText.includes('1 shown, 1 opened, 0 dismissed')", "what devices report is not shown")
    page.wait("[...view.querySelectorAll('td')].some(each => each.textContent === 'opened')",
              "a delivery does not show what its device reported")
    go(f"/apps/shop/notifications/{made['to ada']}?state=token_gone")
    page.wait("view.innerText.includes('No delivery matches.')", "deliveries are not filtered")
    go(f"/apps/shop/notifications/{made['to gus']}")
    page.click(button("Explain"))
    page.wait("document.title.startsWith('Why: gus') && document.querySelectorAll('.timeline li').length > 2", "why does not explain")
    expect("Not sent" in page.text(".verdict"), "why draws no conclusion")
    expect(page.evaluate("document.querySelector('.timeline time').dateTime.endsWith('Z')"), "the time line has no times")
    picture("why-light")
    go(f"/apps/shop/notifications/{made['later']}")
    act("Cancel the notification…", [made["later"], "shop", "No delivery has been made yet."],
        "Cancelled. 0 deliveries were still stoppable. More would have followed.")
    page.wait(f"!{button('Cancel the notification…')}", "a cancelled notification can be cancelled")
    expect(world.status(made["later"])["state"] == "cancelled", "it is not cancelled")


def row(words):
    """The row of a table that begins with these words, as the texts of its cells by their headings."""
    found = f"[...document.querySelectorAll('tbody tr')].find(each => each.cells[0].textContent === {json.dumps(words)})"
    page.wait(found, f"{words} is not listed")
    return page.evaluate(f"Object.fromEntries([...{found}.cells].map(each => [each.dataset.heading, each.textContent]))")


def live_activities():
    go("/apps/shop/activities")
    states = {name: row(name)["State"] for name in (RIDE, "ride-2", "ride-3", "ride-4")}
    expect(states == {RIDE: "active", "ride-2": "stale", "ride-3": "active", "ride-4": "starting"}, f"the states are {states}")
    expect(row(RIDE)["Owner"] == "liv" and row("ride-3")["Owner"].startswith("no user, "), "an owner is missing")
    expect(row("ride-4")["Newest state"] == made["waits"] and row("ride-4")["Waits"] == "waits", "a state that waits is not shown")
    expect(row(RIDE)["Waits"] == "–", "a state that was sent waits")
    picture("live-activities-light")
    enter("User", "lou")
    choose("State", "starting")
    page.click(button("Show"))
    page.wait("location.hash.includes('user=lou') && document.querySelectorAll('tbody tr').length === 1", "the filters do not filter")
    go("/apps/shop/activities")
    enter("Id", "ride-4")
    enter("Its user", "lou")
    page.press("Enter")
    page.wait("document.title.startsWith('Live Activity ride-4') && view.innerText.includes('for an update token')",
              "the page does not say what a state waits for")
    go(f"/apps/shop/installations/{made['liv']}")
    page.click("[...document.querySelectorAll('td a')].find(each => each.textContent === 'ride-2')")
    page.wait("document.title.startsWith('Live Activity ride-2')", "a token does not lead to its Live Activity")
    go(f"/apps/shop/activities/{quoted(RIDE)}?user=liv")
    page.wait(f"[...document.querySelectorAll('#view a')].some(each => each.textContent === '{made['newest']}')",
              "the newest state is no link")
    picture("live-activity-light")
    act("End…", [RIDE, "shop", "liv", "four hours"], "Accepted as notification ")
    end = page.text("#said").split()[-1].rstrip(".")
    world.settled(end)
    expect(world.on_screen(made["liv token"], RIDE)["state"] == "ended", "the device does not show the end")
    page.wait(f"view.innerText.includes('{end}') && !{button('End…')} && !{button('Remove from the lock screen…')}",
              "a Live Activity that has ended can be ended")
    go(f"/apps/shop/notifications/{world.update('liv', RIDE)}")
    page.wait(f"view.innerText.includes('no targets') && view.innerText.includes({json.dumps(RIDE)})",
              "a notification does not name the Live Activity that is over")
    go("/apps/shop/activities/ride-2?user=liv")
    act("Remove from the lock screen…", ["ride-2", "shop", "liv", "at once"], "Accepted as notification ")
    world.settled(page.text("#said").split()[-1].rstrip("."))
    expect(world.on_screen(made["liv token"], "ride-2")["state"] == "dismissed", "it stays on the lock screen")
    page.wait("view.innerText.includes('dismissed')", "the page does not show that it is off the lock screen")


def channels():
    go("/apps/shop/channels")
    names = {MATCH: "open", "match 18": "open", "match lost": "lost", "match refused": "failed", "no name": "foreign"}
    states = {name: row(name)["State"] for name in names}
    expect(states == names, f"the states are {states}")
    expect(row("match refused")["Reason"] != "–", "Apple's reason is not shown")
    expect(row("no name")["Apple's id"] == made["foreign"], "a foreign channel has no id")
    picture("channels-light")
    choose("State", "foreign")
    choose("Environment", "production")
    page.click(button("Show"))
    page.wait("location.hash.includes('environment=production') && document.querySelectorAll('tbody tr').length === 1",
              "the filters do not filter")
    act("Delete…", ["the channel " + made["foreign"], "shop", "production", "cannot be undone"], "Deleted.", "tbody tr:first-child")
    page.wait("view.innerText.includes('No channel matches.')", "a deleted channel stays")
    expect(made["foreign"] not in world.channels_at_apple(), "Apple has the foreign channel still")
    go("/apps/shop/channels/match%20lost")
    page.wait("view.innerText.includes('Apple does not have it any more')", "the page does not say what became of the channel")
    go("/apps/shop/channels/match%2018")
    world.start({"user": "lou"}, "watch-18", input_push_channel=made["match 18"])
    page.wait("[...document.querySelectorAll('dd')].some(each => each.textContent === '1')", "the page does not count who follows")
    picture("channel-light")
    act("Delete…", ["match 18", "1 Live Activity follows it", "cannot be undone"], "Deleted.")
    page.wait("view.innerText.includes('no channel of this name')", "a deleted channel stays")
    expect(world.channels_at_apple() == {made["match"]}, "Apple has other channels than the platform")


def installations():
    go("/apps/shop/installations")
    enter("User", EVE)
    page.press("Enter")
    page.wait("document.title.startsWith('User eve') && document.querySelectorAll('tbody tr').length === 1",
              "a user's installations are not found")
    go("/apps/shop/installations")
    enter("Device token", made["ada token"])
    page.press("Enter")
    page.wait(f"document.querySelector('#holders').innerText.includes('{made['ada']}')", "a token's installation is not found")
    expect(made["ada token"] not in page.evaluate("location.href"), "a token stands in the address")
    slowly(400)
    page.evaluate("".join([button("Find the token") + ".click();"] * 2))  # the last check sees whether one waits
    page.wait(f"document.querySelector('#holders').innerText.includes('{made['ada']}')")
    slowly(0)
    go(f"/apps/shop/installations/{made['gone']}")
    page.wait("view.innerText.includes('token retired') && view.innerText.includes('Unregistered') && view.innerText.includes('gone')",
              "what happened to the token is not shown")
    picture("installation-light")
    go(f"/apps/shop/installations/{made['ada']}")
    act("Log out…", ["ada", made["ada"], "shop"], "Signed out.")
    page.wait("view.innerText.includes('signed out')")
    record = world.service.call("GET", f"/v1/apps/shop/installations/{made['ada']}")
    expect(record["user"] is None, "the installation is not signed out")
    id, token = world.device("mia")
    page.click("document.querySelector('#pause')")
    go(f"/apps/shop/installations/{id}")
    world.register(id, token, "noa")
    page.click(button("Log out…"))
    page.wait("document.querySelector('#question').open")
    page.click("document.querySelector('#question-yes')")
    page.wait("document.querySelector('#failed[role=alert]').innerText !== ''", "the page hides a refusal")
    expect(world.service.call("GET", f"/v1/apps/shop/installations/{id}")["user"] == "noa", "the page logs out a user that it did not show")
    page.click("document.querySelector('#pause')")
    go("/apps/shop/users/ada")
    act("Log the user out everywhere…", ["ada", "every installation"], "Signed out on 1 installation.")


def holds():
    go("/apps/shop/holds")
    page.wait("view.innerText.includes('prices are wrong')", "the hold is not listed")
    choose("What", "soon")
    choose("How long", "7200")
    enter("Reason", "a test of the console")
    act("Set a hold…", ["lane soon of shop", "2 hours", "a test of the console"], "Held: lane soon of shop.")
    page.wait("document.querySelectorAll('tbody tr').length === 2", "the new hold does not appear")
    picture("holds-light")
    act("Lift…", ["lane soon of shop", "a test of the console"], "Lifted.", "tbody tr:first-child")
    page.wait("document.querySelectorAll('tbody tr').length === 1", "the lifted hold stays")
    expect(page.evaluate("document.activeElement.id") == "heading", "the focus is lost with the button")
    go(f"/apps/shop/notifications/{made['held']}")
    page.click("[...document.querySelectorAll('.actions a')].find(each => each.textContent === 'Hold this notification')")
    page.wait("document.querySelector('select[name=what]')?.value === 'notification'")
    enter("Reason", "one alone")
    act("Set a hold…", ["notification " + made["held"], "until an operator lifts it"], "Held: notification")
    go("/holds")
    enter("Reason", "everything rests")
    act("Set a hold…", ["everything of every app"], "Held: everything of every app.")
    page.wait("document.querySelector('tbody tr').innerText.includes('everything rests')", "a hold over every app does not appear")
    act("Lift…", ["everything of every app"], "Lifted.", "tbody tr:first-child")


def dead_letters():
    go("/dead-letters")
    expect("attempts_used_up" in page.text("tbody tr") and "3" in page.text("tbody tr"), "the dead letters are not counted")
    picture("dead-letters-light")
    go(f"/dead-letters/{made['letter']}")
    expect(made["to dora"] in page.text("#view"), "a letter does not name its notification")
    go(f"/dead-letters?notification={made['to dora']}&reason=nothing")
    page.wait("view.innerText.includes('There is no dead letter.')", "dead letters are not filtered")
    go(f"/dead-letters/{made['letter']}")
    expect(page.text("#pause") == "Read again", "the page reads the queue of the dead letters by itself")
    act("Replay…", ["1 letter", made["letter"], "same user"], "Replayed 1 letter: 1 delivery sent again")
    go(f"/dead-letters?notification={made['to dan']}")
    act("Drop…", ["1 letter", "notification " + made["to dan"], "cannot be undone"], "Dropped 1 letter.")
    page.wait("view.innerText.includes('There is no dead letter.')", "a dropped letter stays")
    go("/dead-letters")
    page.wait(f"view.innerText.includes({json.dumps(made['last letter'])})", "the letters of other notifications are dropped too")


def audit():
    go("/audit")
    page.wait("document.querySelector('tbody tr').innerText.includes('dead_letters.dropped')", "the newest action is not the first")
    enter("App", "shop")
    enter("Action", "hold.lifted")
    page.press("Enter")
    page.wait("location.hash === '#/audit?app=shop&action=hold.lifted' && document.querySelectorAll('tbody tr').length > 0",
              "the audit trail is not filtered")
    shown = page.evaluate("[...document.querySelectorAll('tbody tr')].every(each => each.innerText.includes('hold.lifted'))")
    expect(shown, "the filtered trail shows other actions")
    expect(page.evaluate("document.querySelectorAll('tbody tr button').length") == 0, "the trail has actions")


def webhooks():
    go("/apps/shop/webhooks")
    page.wait("document.querySelectorAll('tbody tr').length === 3 && view.innerText.includes('disabled: gone')",
              "the webhooks are not listed")
    picture("webhooks-light")
    go(f"/apps/shop/webhooks/{made['fine hook']}?state=delivered")
    act("Ping…", ["push.webhook.ping.v1", "/200"], "Sent as ")
    page.wait("view.innerText.includes('webhook.ping')", "the ping is not among the messages")
    go(f"/apps/shop/webhooks/{made['failing hook']}?state=failed")
    page.wait("document.querySelectorAll('tbody tr').length > 0 && view.innerText.includes('status_500')",
              "what was given up is not listed")
    act("Redeliver what was given up…", ["every message that was given up", "/500"], "will be sent again.")
    go(f"/apps/shop/webhooks/{made['fine hook']}?state=delivered")
    act("Redeliver…", ["message ", "same id"], "1 message will be sent again.", "tbody tr:first-child")
    go(f"/apps/shop/webhooks/{made['gone hook']}")
    act("Enable…", ["/410", "also those that wait"], "Enabled.")


def quarantine():
    go("/apps/cafe/quarantine")
    total = page.evaluate("document.querySelectorAll('tbody tr').length")
    expect(total > 1, "the quarantine is not listed")
    act("Restore…", ["the tokens of installation"], "1 token restored", "tbody tr:first-child")
    page.wait(f"document.querySelectorAll('tbody tr').length === {total - 1}", "a restored token stays in the list")
    act("Restore all…", [f"{total - 1} token"], f"{total - 1} token")
    page.wait("view.innerText.includes('No token is in quarantine.')")


def routes():
    go("/nothing/of/the/kind")
    page.wait("document.title.startsWith('There is no such page') && view.innerText.includes('/nothing/of/the/kind')",
              "an unknown place has no words")
    page.evaluate("location.hash = '#/apps/nowhere'")
    page.wait("document.querySelector('#trouble[role=alert]').innerText.startsWith('Not found')",
              "an unknown app has no words")
    page.evaluate("location.hash = '#/apps/shop/users/..'")
    page.wait("document.title.startsWith('There is no such page')", "two dots lead to another request")
    page.evaluate("location.hash = '#/apps/nowhere'")
    page.wait("document.title.startsWith('nowhere')")
    page.evaluate("location.hash = '#/apps/shop/notifications/%E0%A4%A'")
    page.wait("document.title.startsWith('There is no such page')", "a broken address has no words")


def hostile():
    for place in places():
        go(place)
        elements = page.evaluate("document.querySelectorAll('main img, main script, dialog img').length")
        expect(elements == 0, f"text became HTML at {place}")
    go(made["user"])
    expect(HOSTILE in page.text("h1"), "a name is not shown as it is")
    page.click(button("Log the user out everywhere…"))
    page.wait(f"document.querySelector('#question').innerText.includes({json.dumps(HOSTILE)})")
    page.press("Escape")
    expect(page.evaluate("window.hurt") is None, "text ran as a script")


def refreshing():
    go("/apps/shop/notifications")
    link = "document.querySelector('tbody a')"
    page.evaluate(f"{link}.focus(); window.kept = {link}")
    id = world.send({"user": EVE})
    page.wait(f"view.innerText.includes('{id}')", "a new notification does not appear by itself")
    expect(page.evaluate("document.activeElement === kept && kept.isConnected"), "a refresh takes the focus away")
    page.click("document.querySelector('#pause')")
    expect(page.text("#pause") == "Continue", "the button does not say that the page is paused")
    read = "performance.getEntriesByType('resource').length"
    before = page.evaluate(read)
    id = world.send({"user": EVE})
    # Longer than the rest between two readings. A page that goes on reading fails here, a slow machine does not.
    page.evaluate("new Promise(done => setTimeout(done, 3500))")
    expect(page.evaluate(read) == before, "a paused page goes on reading")
    page.click("document.querySelector('#pause')")
    page.wait(f"view.innerText.includes('{id}')", "the page does not continue")
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true}); window.isHidden = true;"
                  "document.dispatchEvent(new Event('visibilitychange'))")
    page.evaluate("new Promise(done => setTimeout(done, 500))")
    before = page.evaluate(read)
    id = world.send({"user": EVE})
    page.evaluate("new Promise(done => setTimeout(done, 3500))")
    expect(page.evaluate(read) == before, "a hidden tab goes on reading")
    page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait(f"view.innerText.includes('{id}')", "a tab that is shown again does not read")


def keyboard():
    for place in (f"/notifications/{made['held']}", "/activities/ride-4?user=lou", "/channels", f"/channels/{quoted(MATCH)}", "/holds"):
        go("/apps/shop" + place)
        page.evaluate("document.activeElement.blur(); document.querySelector('#skip').focus()")
        page.wait("document.activeElement.getBoundingClientRect().top >= 0", "the skip link stays out of sight")
        page.press("Enter")
        page.wait("document.activeElement.id === 'heading'", "the skip link does not lead to the content")
        wanted = page.evaluate(
            "window.reached = new Set(); window.wanted = () => [...document.querySelectorAll('a, button, input, select, summary')]"
            ".filter(each => each.checkVisibility({visibilityProperty: true})); wanted().length")
        for _ in range(wanted + 10):
            page.press("Tab")
            unseen = page.evaluate(
                "(() => { const at = document.activeElement; if (at === document.body) return null; reached.add(at);"
                "const shown = getComputedStyle(at);"
                "return shown.outlineStyle === 'none' || parseFloat(shown.outlineWidth) < 2 ? at.outerHTML : null })()")
            expect(unseen is None, f"the focus cannot be seen on {unseen}")
        missed = page.evaluate("wanted().filter(each => !reached.has(each)).map(each => each.outerHTML)")
        expect(not missed, f"the Tab key does not reach {missed}")
        nameless = [node for node in page.call("Accessibility.getFullAXTree")["nodes"]
                    if not node["ignored"] and node["role"]["value"] in ("button", "link", "textbox", "combobox", "table")
                    and not any(letter.isalpha() for letter in node.get("name", {}).get("value", ""))]
        expect(not nameless, f"without a name: {nameless}")
    roles = {node["role"]["value"] for node in page.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]}
    wanted = {"banner", "navigation", "main", "heading", "table", "rowheader", "columnheader"}
    expect(wanted <= roles, f"a screen reader does not find {wanted - roles}")


def sights():
    """Contrast in light and dark, and the width of a phone, in every view."""
    for place in places():
        page.see(*DESKTOP)
        go(place)
        for size, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
            page.see(*size, scheme)
            page.wait(f"innerWidth === {size[0]}")
            found = page.evaluate(CONTRASTS)
            expect(found["texts"] > 10, f"{place}: only {found['texts']} texts were looked at")
            expect(not found["weak"], f"{place}, {scheme}: too little contrast: {found['weak']}")
            wide = page.evaluate(
                f"document.documentElement.scrollWidth > {size[0]} && [...document.querySelectorAll('body *')].filter(each => "
                f"each.getBoundingClientRect().right > {size[0]} + 1).map(each => each.outerHTML.slice(0, 120)).slice(-3)")
            expect(not wide, f"{place} is wider than {size[0]} pixels: {wide}")
            if place in ("/apps/shop", "/apps/shop/notifications"):
                picture(f"{place.split('/')[-1]}-{'phone' if size == PHONE else 'desktop'}-{scheme}")
        if place == "/apps/shop/holds":
            page.see(*DESKTOP, "dark")
            page.click(button("Lift…"))
            page.wait("document.querySelector('#question').open")
            expect(not page.evaluate(CONTRASTS)["weak"], "the dialog has too little contrast")
            page.screenshot(pathlib.Path(pictures) / "console-question-dark.png")
            page.press("Escape")
    page.see(*DESKTOP)


def unreachable():
    go("/apps/shop")
    slowly(0, offline=True)
    page.wait("document.querySelector('#trouble').innerText.includes('does not answer')", "the page hides that the service is away")
    slowly(0)
    page.wait("document.querySelector('#trouble').innerText === ''", "the page does not come back with the service")


def readers():
    sign_in(world.viewer)
    page.wait("location.hash === '#/apps/shop'", "a key of one app does not open its app")
    expect(HOSTILE in page.text("#who"), "a key's name is not shown as it is")
    for place in places():
        page.evaluate(f"location.hash = {json.dumps('#' + place)}")
        page.wait("!view.innerText.includes('Loading') && (view.childElementCount > 0 || trouble.innerText !== '')", f"{place} stays empty")
        found = [words for words in page.evaluate("[...document.querySelectorAll('main button')].map(each => each.textContent)")
                 if words.endswith("…")]
        expect(found == [], f"a key that may only read sees {found} at {place}")
    go("/apps/shop/webhooks")
    expect("needs the scope admin" in page.text("#view"), "the page does not say which scope is missing")
    menu = page.evaluate("[...document.querySelectorAll('#sections a')].map(each => each.textContent)")
    expect(menu == ["Activity", "Notifications", "Live Activities", "Channels", "Installations", "Holds", "Quarantine"],
           f"a key that may only read is offered {menu}")
    page.evaluate("location.hash = '#/apps/cafe'")
    page.wait("document.querySelector('#trouble').innerText.startsWith('Not found')", "a key of one app sees another app")
    sign_in(world.everywhere)
    page.evaluate("location.hash = '#/'")
    page.wait("document.title.startsWith('Choose an app')", "a key that may not list apps is not asked for one")
    enter("App", "cafe")
    page.press("Enter")
    page.wait("document.title === 'cafe · Push console' && document.querySelector('.chart rect')", "the named app does not open")
    # No page leads nowhere: one that the key cannot open names those that it can.
    sign_in(world.key("administrator", ["admin"], None))
    page.evaluate("location.hash = '#/apps/shop'")
    page.wait("view.innerText.includes('needs the scope read') && view.innerText.includes('--scopes devices,send,read,admin')")
    page.click("[...document.querySelectorAll('#view a')].find(each => each.textContent === 'Holds')")
    page.wait("location.hash === '#/apps/shop/holds' && document.title.startsWith('Holds')", "a link to an open page does not open it")
    key = world.key("ends soon", ["read"], "shop")
    sign_in(key)
    world.admin.call("DELETE", "/v1/admin/keys/" + key.split("_")[1])
    page.wait("session.hidden && document.querySelector('#failed').innerText !== ''", "a revoked key stays signed in")


def fenced():
    """Nothing was asked elsewhere, nothing was refused by the policy, nothing was logged, and no two requests were under way at once."""
    origin = console.removesuffix("/console")
    outside = [url for url in page.requested() if not url.startswith(origin + "/")]
    expect(not outside, f"the page asked elsewhere: {outside}")
    expect(page.evaluate("window.violations") == [], f"the policy refused something: {page.evaluate('window.violations')}")
    for method, event in page.events:
        # Chromium itself logs an answer of 401 or 404, which the page shows to the person.
        if method == "Log.entryAdded":
            entry = event["entry"]
            expect(entry["source"] == "network" and "/v1/" in entry.get("url", ""), f"the browser complains: {entry}")
        expect(method not in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"), f"the page logs: {event}")
    under_way, overlapped = {}, {}
    for method, event in page.events:
        if method in ("Page.frameStartedLoading", "Page.navigatedWithinDocument"):
            # A view that is left gives its request up, and Chromium does not always tell of that. It may tell of the next view's request
            # first.
            under_way, overlapped = {}, {}
        elif method == "Network.requestWillBeSent" and "/v1/" in event["request"]["url"]:
            overlapped.update({other: (url, event["request"]["url"]) for other, url in under_way.items()})
            under_way[event["requestId"]] = event["request"]["url"]
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            under_way.pop(event["requestId"], None)
            expect(method == "Network.loadingFailed" or event["requestId"] not in overlapped,
                   f"two requests at once: {overlapped.get(event['requestId'])}")
            overlapped.pop(event["requestId"], None)



def main():
    global world, page
    page = Chromium(work)
    page.call(
        "Page.addScriptToEvaluateOnNewDocument", source="window.violations = []; document.addEventListener('securitypolicyviolation', "
        "event => window.violations.push(event.effectiveDirective + ' ' + event.blockedURI))")
    world = PlatformWorld(push, simulator, key_file)
    try:
        for check in (populate, signing_in, apps, notifications, live_activities, channels, installations, holds, dead_letters, audit, webhooks,
                      quarantine, routes, hostile, refreshing, keyboard, sights, unreachable, readers, fenced):
            run(check)
    finally:
        page.close()
        world.close()


def run(check):
    began = time.monotonic()
    try:
        check()
    except (Failure, RuntimeError) as failure:
        page.screenshot(pathlib.Path(pictures) / f"failed-{check.__name__}.png")
        raise Failure(f"{check.__name__}: {failure}") from failure
    print(f"    {check.__name__} ({time.monotonic() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"console_test: {failure}")
