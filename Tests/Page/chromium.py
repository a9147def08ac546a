"""A small client of the DevTools protocol: it drives a headless Chromium over two pipes, with nothing but Python's standard library.

The protocol is described at https://chromedevtools.github.io/devtools-protocol/. With --remote-debugging-pipe Chromium reads commands from file
descriptor 3 and writes answers and events to 4; a zero byte ends each message.
"""

import base64
import fcntl
import json
import os
import select
import subprocess
import time

PATIENCE = 20  # seconds until a wait becomes a failure

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowRight": 39, "ArrowLeft": 37}


class Failure(AssertionError):
    """The page does not do what was promised."""


class Chromium:
    """A browser with one page open."""

    def __init__(self, folder):
        commands, self.commands = self.pipe()
        self.messages, messages = self.pipe()
        flags = [
            "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile", "--no-first-run", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
        ]
        if os.getuid() == 0:
            flags.append("--no-sandbox")  # Chromium's sandbox refuses to run as root
        with open(f"{folder}/chromium.log", "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{messages}', "bash", "chromium", *flags, "about:blank"],
                pass_fds=(commands, messages), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
        os.close(commands)
        os.close(messages)
        self.read = b""
        self.sent = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(domain + ".enable")

    @staticmethod
    def pipe():
        # Above the numbers that Chromium is given, so that neither overwrites the other.
        return [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe()]

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()

    def call(self, method, **parameters):
        """Sends a command and returns its result; events that come meanwhile are kept."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.read:
                text, self.read = self.read.split(b"\0", 1)
                answer = json.loads(text)
                if answer.get("id") == self.sent:
                    if "error" in answer:
                        raise Failure(f"{method}: {answer['error']['message']}")
                    return answer["result"]
                if "method" in answer:
                    self.events.append((answer["method"], answer["params"]))
            if not select.select([self.messages], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Failure(f"{method}: Chromium did not answer in {PATIENCE} s")
            part = os.read(self.messages, 1 << 20)
            if not part:
                raise Failure("Chromium has ended; its last words are in chromium.log")
            self.read += part

    # What a person sees

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def see(self, width, height, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description', answer)}")
        return answer["result"].get("value")

    def wait(self, expression, why=None):
        """Waits, in the page and frame by frame, until the expression is true there; returns its value."""
        value = self.evaluate(
            "new Promise(done => { const end = Date.now() + %d; const look = () => { let value; try { value = Boolean(%s) } catch { value = false } "
            "if (value || Date.now() > end) done(value); else setTimeout(look, 20) }; look() })" % (PATIENCE * 750, expression))
        if not value:
            raise Failure(f"{why or 'the page never came to this'}: {expression}")
        return value

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    # What a person does

    def click(self, expression):
        """Clicks with the mouse into the middle of an element, as a person does: one that is hidden or covered is a failure."""
        place = self.evaluate(
            "(() => { const target = %s; if (!target) return null; target.scrollIntoView({block: 'center'}); const box = target.getBoundingClientRect();"
            "const x = box.x + box.width / 2, y = box.y + box.height / 2; const top = document.elementFromPoint(x, y);"
            "return box.width && (target.contains(top) || top?.contains(target)) ? [x, y] : null })()" % expression)
        if not place:
            raise Failure(f"nothing to click at {expression}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key, shift=False):
        known = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **known, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def type(self, text):
        self.call("Input.insertText", text=text)

    # What happened

    def complaints(self):
        """Errors that the page logged: exceptions, refused loads, violations of the Content-Security-Policy."""
        found = []
        for method, event in self.events:
            if method == "Runtime.exceptionThrown":
                found.append(event["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
                found.append(event["entry"]["text"] + " " + event["entry"].get("url", ""))
            elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
                found.append(str(event["args"]))
        return found

    def requested(self):
        return [event["request"]["url"] for method, event in self.events if method == "Network.requestWillBeSent"]
