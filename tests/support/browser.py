"""A real Chromium for tests, spoken to over its DevTools protocol through pipes: no driver and no library."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python

from tests.support.required import program

FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-extensions", "--no-proxy-server"),
)
ANSWER_SECONDS = 30.0
"""The machine may be busy with other tests."""
PIPES = 'read=$1 write=$2; shift 2; exec "$@" 3<&"$read" 4>&"$write"'
"""Chromium reads commands from descriptor 3 and answers on 4."""


class Page:
    """One open page."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session: str | None = None
        self.errors: list[str] = []
        """Exceptions of the page's scripts and what the browser held against it, but for answers other than 200."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Goes to an address and waits for what it loads; what its scripts ask for may come later."""
        self._call("Page.navigate", url=url)
        self.eventually("location.origin !== 'null' && document.readyState === 'complete'")

    def size(self, width: int, height: int) -> None:
        """Of the window, in CSS pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, scheme: str) -> None:
        """Shows pages as to somebody who prefers "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def faults(self) -> list[str]:
        """What axe-core holds against the page under WCAG 2.2 A and AA: rule and element of each."""
        self.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text() + "; 0")
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        found = self.evaluate(f"axe.run(document, {{runOnly: {{type: 'tag', values: {tags}}}}})")
        assert found["passes"], "axe-core looked at nothing"
        return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression, awaited. Raises AssertionError where it throws."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def eventually(self, expression: str) -> None:
        """Returns once the expression is truthy; where it throws it is not, as on a page that is being loaded anew."""
        deadline = time.monotonic() + ANSWER_SECONDS
        asked = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        while not self.evaluate(asked):
            assert time.monotonic() < deadline, f"never: {expression}; errors: {self.errors}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """What a reader sees of the first such element."""
        found: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the first such element."""
        middle = (
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); "
            "node.scrollIntoView({block: 'center'}); "
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        x, y = self.evaluate(middle)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, text: str) -> None:
        """Types text into what has the focus."""
        self._call("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """An entry of the first such list, by its value."""
        self.evaluate(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.value = {json.dumps(value)}; "
            "node.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def save_downloads_in(self, directory: Path) -> None:
        """Files that links offer to download go there, under the names that they are offered under."""
        self._call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(directory))

    def screenshot(self, path: Path) -> None:
        """A PNG of the window."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        printed = self._call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        asked: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._commands, json.dumps(asked).encode() + b"\0")
        while True:
            message = self._next_message()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], ANSWER_SECONDS)
            assert ready, f"Chromium said nothing for {ANSWER_SECONDS:.0f} s"
            self._unread += os.read(self._answers, 1 << 16)
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(event["params"]["exceptionDetails"]))
        entry = event["params"].get("entry", {}) if event.get("method") == "Log.entryAdded" else {}
        if entry.get("level") == "error" and entry["source"] != "network":
            self.errors.append(entry["text"])


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A page of a headless Chromium that ends with the block; see `tests.support.required` for a machine without one.

    Args:
        profile: an empty directory for what it keeps.
    """
    chromium = program("chromium", "google-chrome", package="chromium", kind="CHROMIUM")
    with contextlib.ExitStack() as stack:
        its_commands, commands = _pipe(stack)
        answers, its_answers = _pipe(stack)
        argv = ["bash", "-c", PIPES, "bash", str(its_commands), str(its_answers)]
        argv += [chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            argv,
            pass_fds=(its_commands, its_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield Page(commands, answers)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Reading and writing end, above 10, so that the shell can put the others in their places."""
    ends = []
    for end in os.pipe():
        high = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(end)
        stack.callback(os.close, high)
        ends.append(high)
    return ends[0], ends[1]
