"""A page in a real browser: headless Chromium, spoken to through a pipe in its DevTools protocol.

`open_page` loads a file at a width, in a light or dark colour scheme, with every fold open, and returns what it saw.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 300.0  # seconds for one answer, on a machine that is busy with other things

#: becomes the browser, with the pipe's ends under the numbers that it expects
RENUMBER = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""

#: evaluated in the page; `ran` is what a script that should not run would have set
LOOK = """(async () => {
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  const count = selector => document.querySelectorAll(selector).length;
  const page = document.documentElement;
  return {
    title: document.title, width: innerWidth, scroll_width: page.scrollWidth,
    tables: count("table"), images: count("img"),
    broken: [...document.images].filter(image => !image.naturalWidth).map(image => image.alt),
    loose: [...document.querySelectorAll("table, img, pre")].filter(
      each => each.getBoundingClientRect().right > innerWidth && !each.closest(".scroll")).length,
    dead: [...document.querySelectorAll('a[href^="#"]')].map(link => link.hash)
      .filter(hash => !document.getElementById(hash.slice(1))),
    background: getComputedStyle(document.body).backgroundColor,
    ran: window.ran ?? null,
  };
})()"""


@dataclass(frozen=True)
class Seen:
    """What the browser saw of a page: the answers of `LOOK`, complaints of its console, and addresses it asked for."""

    facts: dict
    complaints: list
    requests: list
    screenshot: bytes = b""


def find_chromium():
    """Where Chromium is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def open_page(path, *, width=390, height=844, dark=False, full_height=False):
    """Load a page, wait for it, and look."""
    with _chromium() as pipe:
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        pipe.session = pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            pipe.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        pipe.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        pipe.call("Emulation.setEmulatedMedia", features=[scheme])
        pipe.call("Page.setLifecycleEventsEnabled", enabled=True)
        # by the number of this load: the empty page before it may tell of its own end only now
        loader = pipe.call("Page.navigate", url=Path(path).resolve().as_uri())["loaderId"]
        pipe.wait_for("Page.lifecycleEvent", name="load", loaderId=loader)
        result = pipe.call("Runtime.evaluate", expression=LOOK, awaitPromise=True, returnByValue=True)
        shot = pipe.call("Page.captureScreenshot", captureBeyondViewport=full_height)["data"]
    return Seen(result["result"]["value"], pipe.complaints(), pipe.requests(), base64.b64decode(shot))


class _Pipe:
    """Questions to the browser and its answers, JSON ended by a zero byte; events are kept."""

    def __init__(self, write, read):
        self.write, self.read = write, read
        self.buffer, self.events, self.number, self.session = b"", [], 0, None

    def call(self, method, **parameters):
        self.number += 1
        question = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.write, json.dumps(question).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == self.number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def wait_for(self, method, **parameters):
        """Wait for an event with these parameters, unless it has come before."""

        def wanted(message):
            return message.get("method") == method and parameters.items() <= message["params"].items()

        if not any(map(wanted, self.events)):
            self._until(wanted)

    def _until(self, wanted):
        deadline = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.buffer:
                text, self.buffer = self.buffer.split(b"\0", 1)
                message = json.loads(text)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self.read], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self.read, 1 << 20) if ready else b""
            assert more, "Chromium ended or did not answer"
            self.buffer += more

    def complaints(self):
        """Errors and warnings of the console, exceptions, and what the browser logged itself."""
        found = []
        for event in self.events:
            name, data = event["method"], event["params"]
            if name == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(part.get("value")) for part in data["args"]))
            elif name == "Runtime.exceptionThrown":
                found.append(data["exceptionDetails"]["text"])
            elif name == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
                found.append(data["entry"]["text"])
        return found

    def requests(self):
        """Addresses asked for, but for what is inside the page."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith("data:")]


@contextmanager
def _chromium():
    """Start a browser with a fresh profile, and end it."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # far from 3 and 4, so that renumbering one end does not close the other
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_read, from_write)]
    for end in (to_read, from_write):
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [find_chromium(), *FLAGS, f"--user-data-dir={profile}"]
        start = [sys.executable, "-I", "-S", "-c", RENUMBER, *map(str, theirs), *command]
        process = subprocess.Popen(start, pass_fds=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in theirs:
            os.close(end)
        pipe = _Pipe(to_write, from_read)
        try:
            yield pipe
            pipe.session = None
            with suppress(AssertionError, OSError, subprocess.TimeoutExpired):  # it is killed below
                pipe.call("Browser.close")
                process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            os.close(to_write)
            os.close(from_read)
