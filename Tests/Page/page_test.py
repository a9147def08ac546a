"""The simulator's page in a headless Chromium: page_test.py CONTROL_URL PUSH_URL MANAGEMENT_URL CREDENTIALS_FOLDER WORK_FOLDER SCREENSHOT_FOLDER

The checks build on one another: the world begins empty and ends with thousands of devices. check-page.sh runs this.
"""

import pathlib
import subprocess
import sys
import time

from chromium import Chromium, Failure
from legibility import CONTRASTS
from world import World

DESKTOP, PHONE = (1280, 860), (390, 844)
ADA, GRACE, LIN, EVE, MAX, ZOE = (f"{number:02x}" * 16 for number in range(0xA1, 0xA7))
HOSTILE = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"

control, push, management, credentials, work, pictures = sys.argv[1:]
world, page = World(control, push, management, credentials), None


def expect(condition, sentence):
    if not condition:
        raise Failure(sentence)


def picture(name):
    page.evaluate("scrollTo(0, 0); feed.scrollTop = 0")
    page.screenshot(pathlib.Path(pictures) / f"{name}.png")


def card(token):
    return f"document.getElementById('name-{token}')?.closest('.card')"


def button(token, text):
    return f"[...{card(token)}.querySelectorAll('.actions button')].find(button => button.textContent === '{text}')"


def activity(token, name):
    """The row of an activity: its button says whose it is."""
    return (f"[...{card(token)}.querySelectorAll('.activity')].find(row => "
            f"row.querySelector('.deeds button:last-child').getAttribute('aria-label').startsWith('Dismiss {name} '))")


def deed(token, name, text):
    return f"[...{activity(token, name)}.querySelectorAll('.deeds button')].find(button => button.textContent === '{text}')"


def play(token, event, moment, state, *, priority=10, **aps):
    world.push(token, topic="com.example.shop.push-type.liveactivity", kind="liveactivity", priority=priority, event=event, timestamp=moment,
               **{"content-state": state, **aps})


def names():
    return page.evaluate("[...document.querySelectorAll('.card h3')].map(name => name.textContent)")


def search(text):
    page.evaluate("document.getElementById('search').focus(); document.getElementById('search').select()")
    page.type(text) if text else page.evaluate("search.value = '', search.dispatchEvent(new Event('input'))")


def only(text):
    page.click(f"[...document.querySelectorAll('fieldset label')].find(label => label.textContent === '{text}')")


def empty():
    page.see(*DESKTOP)
    page.open(control + "/")
    page.wait("!empty.hidden", "an empty world does not say how to make a device")
    command = page.text("#command")
    expect(command.startswith(f"curl -X PUT {control}/v1/devices/"), f"the command does not have this server's address: {command}")
    picture("empty-light")
    page.see(*PHONE, "dark")
    picture("empty-phone-dark")
    page.see(*DESKTOP)
    subprocess.run(["bash", "-c", command + " -sS"], check=True, capture_output=True)
    page.wait("empty.hidden && document.querySelectorAll('.card').length === 1", "the device that the command made does not appear")
    world.call("DELETE", "/v1/devices/00aa11bb22cc33dd44ee55ff66778899")
    page.wait("!empty.hidden && document.querySelectorAll('.card').length === 0", "a forgotten device stays on the page")


def arrivals():
    for token, name in ((ADA, "Ada's phone"), (GRACE, "Grace's tablet"), (LIN, "Lin's phone"), (EVE, "Eve " + HOSTILE), (ZOE, "Zoe's phone")):
        world.device(token, name)
    world.device(MAX, "Max's phone", environment="sandbox", online=False)
    page.wait("document.querySelectorAll('.card').length === 6")
    world.push(ADA, alert={"title": "Your order is on its way", "body": "It arrives between 14:00 and 16:00."}, badge=3)
    page.wait(f"{card(ADA)}.innerText.includes('on its way') && {card(ADA)}.querySelector('.badge').textContent === '3'")
    page.wait("feed.firstElementChild?.innerText.includes('on its way') && feed.innerText.includes('Ada')", "an arrival is not listed")
    page.wait("document.querySelector('#heard[role=status]').textContent.includes('on its way')", "a screen reader is not told of an arrival")
    world.push(ADA, alert={"title": "Ada, a reply", "body": "See you at eight."}, **{"thread-id": "chat"})
    world.push(ADA, alert={"title": "Ada, two replies", "body": "Or at nine?"}, **{"thread-id": "chat"})
    world.push(GRACE, topic="com.example.shop.push-type.liveactivity", kind="liveactivity", timestamp=1_800_000_000, event="update",
               **{"content-state": {"home": 2, "away": 1, "minute": 64}})
    world.push(EVE, EVE, alert={"title": HOSTILE, "body": "A long word: " + "overflow" * 40})
    page.wait(f"{card(ADA)}.querySelectorAll('.note').length === 2")
    page.wait(f"{activity(GRACE, 'com.example.shop')}?.innerText.includes('minute')", "a Live Activity is not on the lock screen")
    page.wait(f"{card(EVE)}.innerText.includes('onerror')")
    expect(page.evaluate("window.hurt") is None, "text of a payload ran as a script")
    expect(page.evaluate("document.querySelectorAll('.card img, .card script, #feed img, #feed script').length") == 0, "text became HTML")
    expect(names().count("Eve " + HOSTILE) == 1, "a name is not shown as it is")
    page.wait("[0, 1].every(index => feed.children[index].innerText.includes('onerror'))", "the newest is not on top")
    page.open(control + "/")
    page.wait("feed.children.length === 6", "arrivals from before the page was opened are not listed")
    page.wait("document.querySelectorAll('.card.lit').length === 3")
    expect(page.text("#heard") == "", "a screen reader announces arrivals from before the page was opened")


def searching():
    search("LIN'S")
    page.wait("document.querySelectorAll('.card').length === 1 && count.textContent === '1 of 6'", "the search does not find a name")
    expect(names() == ["Lin's phone"], f"the search found {names()}")
    search(GRACE[-6:])
    page.wait(f"document.querySelectorAll('.card').length === 1 && {card(GRACE)}", "the search does not find a token")
    search("nothing of that kind")
    page.wait("!unmatched.hidden && document.querySelectorAll('.card').length === 0")
    picture("no-match-light")
    page.click("document.getElementById('clear')")
    page.wait("unmatched.hidden && document.querySelectorAll('.card').length === 6")
    for label, count in (("Notified", 3), ("Off", 1), ("Gone", 0), ("All", 6)):
        only(label)
        page.wait(f"document.querySelectorAll('.card').length === {count} && count.textContent.startsWith('{count}')", f"the filter {label}")
    page.click("[...feed.querySelectorAll('button')].find(button => button.textContent === \"Grace's tablet\")")
    page.wait(f"document.querySelectorAll('.card').length === 1 && {card(GRACE)}", "an arrival does not lead to its device")
    search("")
    page.wait("document.querySelectorAll('.card').length === 6")


def buttons():
    page.click(button(ZOE, "Turn off"))
    page.wait(f"{card(ZOE)}.querySelector('.state').textContent === 'Off' && said.textContent.includes('is off')")
    expect(world.state(ZOE)["online"] is False, "'Turn off' does not switch the device off")
    world.push(ZOE, alert={"title": "Stored", "body": "Waits until the device is on."})
    page.wait(f"{card(ZOE)}.innerText.includes('1 stored') && feed.firstElementChild.innerText.includes('stored')")
    picture("devices-light")
    page.see(*DESKTOP, "dark")
    picture("devices-dark")
    page.see(*DESKTOP)
    page.click(button(ZOE, "Turn on"))
    page.wait(f"{card(ZOE)}.querySelector('.state').textContent === 'On' && {card(ZOE)}.innerText.includes('Waits until')")
    page.click(button(ZOE, "Uninstall"))
    page.wait(f"{card(ZOE)}.querySelector('.state').textContent === 'Uninstalled'")
    expect(world.state(ZOE)["state"] == "uninstalled", "'Uninstall' does not uninstall")
    expect(page.evaluate(f"document.activeElement === {button(ZOE, 'Reinstall')}"), "the focus is lost with the button that went")
    page.click(button(ZOE, "Reinstall"))
    page.wait("document.querySelectorAll('.card').length === 7", "'Reinstall' makes no new token")
    found = world.call("GET", "/v1/devices?search=zoe")["devices"]
    expect(sorted(device["state"] for device in found) == ["installed", "uninstalled"], "'Reinstall' does not reinstall")
    only("Off")
    page.wait("document.querySelectorAll('.card').length === 1")
    page.click(button(MAX, "Turn on"))
    page.wait("document.querySelectorAll('.card').length === 0 && document.activeElement.id === 'devices'", "the focus is lost with a card")
    only("All")
    page.wait("document.querySelectorAll('.card').length === 7")


def activities():
    start, now = "57" * 64, int(time.time())
    world.device(GRACE, "Grace's tablet", start_tokens=[{"attributes_type": "RideAttributes", "token": start}])
    for name, driver in (("ride-1", HOSTILE), ("ride-2", "Kim")):
        play(start, "start", now, {"eta": 5, "driver": driver, "stops": [1, 2]}, alert={"title": "Your ride", "body": "comes"},
             **{"attributes-type": "RideAttributes", "attributes": {"id": name}})
    page.wait(f"{activity(GRACE, 'ride-1')} && {activity(GRACE, 'ride-2')}", "two activities at once are not both there")
    first = activity(GRACE, "ride-1")
    pairs = page.evaluate(f"[...{first}.querySelectorAll('dl div')].map(pair => [...pair.children].map(part => part.textContent))")
    expect(pairs == [["eta", "5"], ["driver", HOSTILE], ["stops", "[1,2]"]], f"the content state is {pairs}")
    token = world.activity(GRACE, "ride-1")["update_token"]
    for text in ("RideAttributes", "Active", "s ago", "ride-1", "token …" + token[-6:], "3 updates left"):
        expect(text in page.evaluate(f"{first}.innerText"), f"the activity does not show {text!r}")
    expect(page.evaluate("window.hurt") is None, "text of an activity ran as a script")

    play(start, "start", now, {"eta": 5}, **{"attributes-type": "RideAttributes", "attributes": {"id": "ride-3"}})
    page.wait("feed.firstElementChild.innerText.includes('no alert')", "the page hides why nothing started")
    page.click(deed(GRACE, "ride-1", "Rotate token"))
    page.wait("said.textContent.includes('has the new token')", "'Rotate token' says nothing")
    new = world.activity(GRACE, "ride-1")["update_token"]
    expect(new != token, "'Rotate token' does not rotate")
    page.wait(f"{first}.innerText.includes('token …{new[-6:]}')", "the new token is not shown")
    for eta in (4, 3, 2, 1):
        play(new, "update", now, {"eta": eta, "driver": HOSTILE})
    page.wait("feed.firstElementChild.innerText.includes('ride-1 over budget')", "an update over the budget is not listed")
    page.wait(f"{first}.innerText.includes('0 updates left') && {first}.querySelector('dd').textContent === '2'", "the budget is not shown")
    play(new, "update", now, {"eta": 1, "driver": HOSTILE}, priority=5, **{"stale-date": now - 1})
    page.wait(f"{first}.classList.contains('stale') && {first}.innerText.includes('Stale')", "a stale activity is not marked")
    expect(page.evaluate(f"getComputedStyle({first}).color !== getComputedStyle({activity(GRACE, 'ride-2')}).color"), "it is not dimmed")

    second = world.activity(GRACE, "ride-2")["update_token"]
    page.evaluate(deed(GRACE, "ride-2", "Rotate token") + ".focus()")
    play(second, "end", now, {"eta": 0})
    page.wait(f"{activity(GRACE, 'ride-2')}.innerText.includes('Ended')", "an ended activity is not marked")
    expect(page.evaluate(f"document.activeElement === {deed(GRACE, 'ride-2', 'Dismiss')}"), "the focus is lost with 'Rotate token'")
    picture("activities-light")
    page.see(*DESKTOP, "dark")
    picture("activities-dark")
    page.see(*DESKTOP)
    page.click(deed(GRACE, "com.example.shop", "Dismiss"))
    page.wait(f"!{activity(GRACE, 'com.example.shop')} && said.textContent.includes('is dismissed')", "'Dismiss' leaves the activity")
    expect(page.evaluate("document.activeElement.id") == "devices", "the focus is lost with an activity")
    expect(world.activity(GRACE, "com.example.shop")["state"] == "dismissed", "'Dismiss' does not dismiss")


def channels():
    expect(page.evaluate("document.getElementById('channels').hidden"), "an empty list of channels takes room")
    channel = world.channel()
    world.call("POST", f"/v1/devices/{GRACE}/activities", {"id": "match", "attributes_type": "MatchAttributes", "channel_id": channel})
    world.call("POST", "/v1/channels/followers", {"channel_id": channel, "add": 100_000})
    page.wait(f"{activity(GRACE, 'match')}?.innerText.includes('channel {channel[:6]}')", "the activity's channel is not shown")
    expect(page.evaluate(f"{deed(GRACE, 'match', 'Rotate token')}.hidden"), "an activity without a token can rotate it")
    world.broadcast(channel, event="update", timestamp=int(time.time()) + 1, **{"content-state": {"home": 2}})
    page.wait(f"{activity(GRACE, 'match')}.innerText.includes('home')", "a broadcast does not reach the activity")
    for text in ("100,001 followers: Grace's tablet, 100,000 more", "1 published", "100,001 receptions", "keeps the newest"):
        page.wait(f"document.getElementById('channel-list').innerText.includes({text!r})", f"the channel does not show {text!r}")
    picture("channels-light")


def spoken():
    """How many controls a screen reader finds; each must have a name with words in it."""
    controls = [node for node in page.call("Accessibility.getFullAXTree")["nodes"]
                if not node["ignored"] and node["role"]["value"] in ("button", "link", "radio", "searchbox")]
    for node in controls:
        name = node.get("name", {}).get("value", "")
        expect(any(letter.isalpha() for letter in name), f"a {node['role']['value']} is called {name!r}")
    return len(controls)


def keyboard():
    page.open(control + "/")
    page.wait("document.querySelectorAll('.card').length === 7 && feed.children.length > 5")
    page.press("Tab")
    expect(page.evaluate("document.activeElement.textContent") == "Skip to the devices", "the first stop is no skip link")
    page.wait("document.activeElement.getBoundingClientRect().top >= 0", "the skip link stays out of sight when it has the focus")
    picture("skip-link-light")
    page.press("Enter")
    page.wait("document.activeElement.id === 'devices'", "the skip link does not lead to the devices")
    page.press("Tab")
    expect(page.evaluate("document.activeElement.id") == "search", "the first stop among the devices is not the search")
    page.press("Tab")
    page.press("ArrowRight")
    page.wait("document.querySelector('input[name=only]:checked').value === 'notified' && document.querySelectorAll('.card').length < 7")
    page.press("ArrowLeft")
    page.wait("document.querySelectorAll('.card').length === 7")

    wanted = page.evaluate(
        "window.reached = new Set(); window.wanted = [...document.querySelectorAll('a, button, input, [tabindex=\"0\"]')].filter(target => "
        "target.checkVisibility({visibilityProperty: true}) && (target.type !== 'radio' || target.checked)); wanted.length")
    for _ in range(wanted + 10):
        page.press("Tab")
        unseen = page.evaluate(
            "(() => { const at = document.activeElement; if (at === document.body) return null; reached.add(at);"
            "const shown = getComputedStyle(at.type === 'radio' ? at.closest('label') : at);"
            "return shown.outlineStyle === 'none' || parseFloat(shown.outlineWidth) < 2 ? at.outerHTML : null })()")
        expect(unseen is None, f"the focus cannot be seen on {unseen}")
    missed = page.evaluate("wanted.filter(target => !reached.has(target)).map(target => target.outerHTML)")
    expect(not missed, f"the Tab key does not reach {missed}")

    expect(spoken() >= wanted, "a control is hidden from screen readers")

    page.evaluate(button(LIN, "Turn off") + ".focus()")
    page.press("Enter")
    page.wait(f"{card(LIN)}.querySelector('.state').textContent === 'Off' && document.activeElement.textContent === 'Turn on'")
    page.press(" ")
    page.wait(f"{card(LIN)}.querySelector('.state').textContent === 'On'", "the space bar does not press a button")
    world.push(LIN, alert={"title": "For Lin", "body": "The focus stays where it is."})
    page.wait(f"{card(LIN)}.innerText.includes('For Lin')")
    expect(page.evaluate(f"document.activeElement === {button(LIN, 'Turn off')}"), "an arrival takes the focus away")


def legible():
    for size, kind in ((DESKTOP, "desktop"), (PHONE, "phone")):
        for scheme in ("light", "dark"):
            page.see(*size, scheme)
            ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
            expect((sum(ground) < 150) == (scheme == "dark"), f"the {scheme} page has the ground {ground}")
            found = page.evaluate(CONTRASTS)
            expect(found["texts"] > 40, f"only {found['texts']} texts were looked at")
            expect(not found["weak"], f"{kind}, {scheme}: too little contrast: {found['weak']}")


def phone():
    page.see(*PHONE)
    page.wait("innerWidth === 390")
    expect(page.evaluate("document.documentElement.scrollWidth") <= 390, "the page is wider than a phone")
    rows = page.evaluate(
        "[...document.querySelectorAll('.card:not(.lit)')].map(card => [card.offsetHeight, card.querySelector('h3').offsetHeight, "
        "Math.abs(card.querySelector('h3').offsetTop + card.querySelector('h3').offsetHeight / 2 - card.querySelector('.state').offsetTop - "
        "card.querySelector('.state').offsetHeight / 2)])")
    expect(len(rows) >= 2, "no device without notifications is there")
    for height, line, apart in rows:
        expect(height <= 48 and line <= 28 and apart <= 3, f"a device without notifications is {height} px high, not one line")
    picture("phone-light")
    page.see(*PHONE, "dark")
    picture("phone-dark")
    page.see(*PHONE)
    expect(page.evaluate(button(MAX, "Turn off") + ".offsetHeight") == 0, "the buttons take room before they are asked for")
    expect(spoken() > 7, "the buttons that open the actions are hidden from screen readers")
    page.evaluate(f"{card(MAX)}.querySelector('.fold').focus()")
    page.press("Enter")
    page.wait(f"{card(MAX)}.querySelector('.fold').getAttribute('aria-expanded') === 'true'")
    page.click(button(MAX, "Turn off"))
    page.wait(f"{card(MAX)}.querySelector('.state').textContent === 'Off'")
    expect(page.evaluate(button(MAX, "Turn on") + ".offsetHeight") > 30, "the buttons close by themselves")
    page.evaluate(f"{card(MAX)}.scrollIntoView({{block: 'center'}})")
    page.screenshot(pathlib.Path(pictures) / "phone-actions-light.png")


def thousands():
    page.see(*DESKTOP)
    for number in range(3000):
        world.device(f"{number:064x}", f"device {number:04d}")
    tokens = [f"{number:064x}" for number in range(100)]
    world.push(*tokens, alert={"title": "To everyone", "body": "A hundred at once."})
    page.wait("more.textContent.includes('of 3,007 devices') && feed.children.length === 50", "thousands of devices do not appear")
    page.wait(f"{card(tokens[0])}.innerText.includes('To everyone')", "the page does not follow thousands of devices")
    expect(page.evaluate("document.querySelectorAll('.card').length") == 60, "the number of cards is not bounded")
    expect(page.evaluate("document.querySelectorAll('*').length") < 4000, "the page grows with the world")
    picture("thousands-light")
    search("device 2999")
    page.wait(f"document.querySelectorAll('.card').length === 1 && {card(f'{2999:064x}')}", "one of thousands is not found")
    page.click(button(f"{2999:064x}", "Turn off"))
    page.wait(f"{card(f'{2999:064x}')}.querySelector('.state').textContent === 'Off'")


def unreachable():
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.wait("!trouble.hidden && trouble.getAttribute('role') === 'alert'", "the page hides that the simulator is away")
    picture("unreachable-light")
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.wait("trouble.hidden && count.textContent === '1 of 3,007'", "the page does not come back with the simulator")


def fenced():
    """Before the simulator was away the page complained of nothing; and whatever comes from elsewhere, or stands in the document, is refused."""
    outside = [url for url in page.requested() if not url.startswith(control + "/")]
    expect(not outside, f"the page asked elsewhere: {outside}")
    page.evaluate(
        "window.refused = new Set(); document.addEventListener('securitypolicyviolation', event => refused.add(event.effectiveDirective));"
        "const script = document.createElement('script'); script.textContent = 'window.hurt = 1'; document.body.append(script);"
        "const handler = document.createElement('button'); handler.setAttribute('onclick', 'window.hurt = 1'); document.body.append(handler);"
        "handler.click(); fetch('http://192.0.2.1/').catch(() => {}); new Image().src = 'http://192.0.2.1/x.png';"
        "const style = document.createElement('style'); style.textContent = '*{color:red}'; document.body.append(style); handler.remove()")
    page.wait("['script-src-elem', 'script-src-attr', 'connect-src', 'img-src', 'style-src-elem'].every(kind => refused.has(kind))",
              "the policy lets something in")
    expect(page.evaluate("window.hurt") is None, "an inline script ran")


def main():
    global page
    page = Chromium(work)
    try:
        for check in (empty, arrivals, searching, buttons, activities, channels, keyboard, legible, phone, thousands):
            run(check)
        expect(not page.complaints(), f"the page complained: {page.complaints()}")
        for check in (unreachable, fenced):
            run(check)
    finally:
        page.close()


def run(check):
    try:
        check()
    except Failure:
        page.screenshot(pathlib.Path(pictures) / f"failed-{check.__name__}.png")
        raise
    print(f"    {check.__name__}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"page_test: {failure}")
