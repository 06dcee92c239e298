"""A headless Chromium, driven through its debugging pipe: what a page says, and what it asks the network for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The program of an installed browser; None if there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page, for many files."""

    def __init__(self, program: str, profile: Path) -> None:
        (heard_by_it, ours), (theirs, heard_by_us) = os.pipe(), os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        flags = " ".join([*options, "--window-size=1400,1000", f"--user-data-dir={profile}"])
        # The browser reads commands from descriptor 3 and answers at 4.
        script = f'exec "$0" {flags} --remote-debugging-pipe about:blank 3<&{heard_by_it} 4>&{heard_by_us}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, program],
            pass_fds=(heard_by_it, heard_by_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(heard_by_it)
        os.close(heard_by_us)
        self._out, self._in = os.fdopen(ours, "wb", 0), os.fdopen(theirs, "rb")
        self._sent, self._waiting = 0, b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = next(each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, file: Path, fragment: str = "") -> None:
        """Open a file with the network off, and wait until it is loaded."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.ask("Runtime.evaluate", expression="0")
        self.events.clear()
        self.ask("Page.navigate", url=file.resolve().as_uri() + fragment)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._hear()

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript; a promise is waited for."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def move(self, selector: str, across: float) -> None:
        """Move the mouse to a place in an element, `across` of its width from the left."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView()")
        box = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height]; })()"
        )
        x, y = box[0] + across * box[2], box[1] + box[3] / 2
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def problems(self) -> list[Any]:
        """What the console said and which exceptions nothing caught, since the page was opened."""
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in bad]

    def requests(self) -> list[str]:
        """The addresses that the page asked for, without those that contain their data."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in sent]
        return [url for url in urls if not url.startswith("data:")]

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its answer."""
        self._sent += 1
        command = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        self._out.write(json.dumps(command).encode() + b"\0")
        while True:
            answer = self._hear()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _hear(self) -> dict[str, Any]:
        """The next message; events are kept."""
        while b"\0" not in self._waiting:
            more = os.read(self._in.fileno(), 1 << 16)
            assert more, "the browser ended"
            self._waiting += more
        text, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def close(self) -> None:
        """End the browser."""
        try:
            self._session = None
            self.ask("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(timeout=60)
        self._out.close()
        self._in.close()
