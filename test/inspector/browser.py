# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven by its DevTools protocol over a pipe."""
import base64
import json
import os
import shutil
import subprocess
import tempfile


class BrowserError(Exception):
    pass


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """A page of its own. `console` has what it logged as errors, `requests`
    the addresses that it asked for."""

    def __init__(self, program, width=1280, height=900):
        self.profile = tempfile.mkdtemp(prefix="tilec-browser-")
        to_read, self.to = os.pipe()
        self.at, from_write = os.pipe()

        def wire():
            # The protocol's numbers of these files are 3 and 4.
            os.dup2(os.dup2(to_read, 13), 3)
            os.dup2(os.dup2(from_write, 14), 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", "--user-data-dir=" + self.profile,
             "--no-first-run", "--disable-background-networking",
             "--disable-extensions", "--hide-scrollbars",
             "--force-color-profile=srgb", "about:blank"],
            preexec_fn=wire, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.buffer = b""
        self.number = 0
        self.console, self.requests = [], []
        self.loaded = False
        targets = self.call("Target.getTargets")["targetInfos"]
        page = [t for t in targets if t["type"] == "page"][0]
        self.session = None
        self.session = self.call("Target.attachToTarget",
                                 targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def close(self):
        try:
            self.send("Browser.close", {}, None)
        except OSError:
            pass  # it has ended by itself
        self.process.wait()
        os.close(self.to)
        os.close(self.at)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    # ---- Messages ----

    def send(self, method, parameters, session):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        return self.number

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.at, 1 << 20)
            if not part:
                raise BrowserError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        number = self.send(method, parameters, getattr(self, "session", None))
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise BrowserError("%s: %s" % (method, message["error"]))
                return message["result"]
            self.note(message)

    def note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            self.console.append(details.get("exception", {}).get(
                "description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in (
                "error", "warning", "assert"):
            self.console.append(str([a.get("value") for a in p["args"]]))
        elif method == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.console.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    # ---- What a test does ----

    def open(self, path, fragment=""):
        self.loaded = False
        self.call("Page.navigate", url="file://" + os.path.abspath(path) +
                  fragment)
        while not self.loaded:
            self.note(self.receive())

    def run(self, script):
        """The value of an expression."""
        r = self.call("Runtime.evaluate", expression=script,
                      returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            details = r["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get(
                "description", details["text"]))
        return r["result"].get("value")

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=scale, mobile=False)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}])
        self.frames(4)

    def frames(self, n=2):
        """Until the page is drawn that often."""
        for _ in range(n):
            self.run("new Promise(requestAnimationFrame)")

    def key(self, key, code=None):
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40,
                 "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}
        common = {"key": key, "code": code or key,
                  "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="left", clickCount=1)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, quality=60):
        """As WebP."""
        self.frames()
        data = self.call("Page.captureScreenshot", format="webp",
                         quality=quality)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
