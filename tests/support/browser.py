"""A real Chromium for tests, driven by Playwright. The tests of a process share it; each has a profile of its own."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api as playwright

from tests.support.required import program

PATIENCE_SECONDS = 60.0
WIDTHS = (1440, 768, 400, 320)
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
NOT_200 = "Failed to load resource"
"""Beginning of the browser's message about an answer other than 200."""
GONE = "context was destroyed"
"""Part of an error: the page was left while a script of the test ran in it."""

T = TypeVar("T")


class Chromium:
    """The class runs the one browser in a thread, as Playwright's synchronous API refuses a thread with a loop."""

    _running: "Chromium | None" = None

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="playwright")
        self._driver = self.do(lambda: playwright.sync_playwright().start())
        started = self._driver.chromium.launch
        self._browser = self.do(
            lambda: started(executable_path=path, args=["--no-proxy-server"], ignore_default_args=["--hide-scrollbars"])
        )

    @classmethod
    def running(cls) -> "Chromium":
        """Started by the first test that asks; see `tests.support.required` for a machine without one."""
        if cls._running is not None and not cls._running._browser.is_connected():
            cls.end()
        if cls._running is None:
            cls._running = cls(program("chromium", "google-chrome", package="chromium", kind="CHROMIUM"))
        return cls._running

    @classmethod
    def end(cls) -> None:
        """Ends it, if it was started."""
        if (ended := cls._running) is not None:
            cls._running = None
            ended.do(ended._browser.close)
            ended.do(ended._driver.stop)
            ended._thread.shutdown()

    def do(self, step: Callable[[], T]) -> T:
        """Run a step in the browser's thread, and wait for it."""
        return self._thread.submit(step).result()

    def new_page(self) -> playwright.Page:
        """Open a page with a profile of its own."""

        def opened() -> playwright.Page:
            context = self._browser.new_context()
            context.set_default_timeout(1000 * PATIENCE_SECONDS)
            return context.new_page()

        return self.do(opened)


class Page:
    """One open page."""

    def __init__(self, chromium: Chromium, directory: Path) -> None:
        self._do = chromium.do
        self._page = chromium.new_page()
        self._directory = directory
        self.errors: list[str] = []
        """Exceptions of the page's scripts and complaints of the browser, but for answers other than 200."""
        self._do(self._listen)

    def open(self, url: str) -> None:
        """Goes to an address and waits for what it loads; what its scripts ask for may come later."""

        def opened() -> None:
            self._page.goto(url, wait_until="commit")  # and not "load": a script may lead elsewhere before that
            self._page.wait_for_load_state()

        self._do(opened)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window, in CSS pixels."""
        self._do(lambda: self._page.set_viewport_size({"width": width, "height": height}))

    def theme(self, scheme: Literal["light", "dark"]) -> None:
        """Shows pages as to somebody who prefers this."""
        self._do(lambda: self._page.emulate_media(color_scheme=scheme))

    def squeezed(self) -> int:
        """How many bars in tables have less than 60 px, of those that are to be seen."""
        bars = "[...document.querySelectorAll('.scroll svg.plot')].filter((one) => one.checkVisibility())"
        return int(self.evaluate(f"{bars}.filter((one) => one.getBoundingClientRect().width < 60).length"))

    def faults(self) -> list[str]:
        """What axe-core holds against the page under WCAG 2.2 A and AA: rule and element of each."""
        options = {"runOnly": {"type": "tag", "values": WCAG}, "resultTypes": ["violations"]}
        self._do(self._page.wait_for_load_state)  # without its style sheet a page has other faults
        found = self._do(lambda: Axe().run(self._page, options=options)).response
        assert found["passes"], "axe-core looked at nothing"
        return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]

    def complaints(self, url: str | None = None, *, widths: Sequence[int] = WIDTHS) -> list[str]:
        """Return where the page is wider than a width (CSS pixels), and axe-core's findings in both themes."""
        if url is not None:
            self.open(url)
        found = []
        for width in widths:
            self.size(width, 900)
            wide = self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            found += [f"{url}: {wide} px too wide for {width}"] if wide else []
        for scheme in ("light", "dark"):
            self.theme(scheme)
            found += self.faults()
        return found

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression, awaited. Raises `playwright.sync_api.Error` where it throws."""
        return self._do(lambda: self._page.evaluate(expression))

    def eventually(self, expression: str) -> None:
        """Returns once the expression is truthy; where it throws it is not, as on a page that is being loaded anew."""
        asked = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_true(asked):  # wait_for_function stumbles over the pages' Content-Security-Policy
            assert time.monotonic() < deadline, f"never: {expression}; errors: {self.errors}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What a reader sees of the first such element."""
        return self._do(self._first(selector).inner_text)

    def click(self, selector: str) -> None:
        """With the mouse on the first such element, once it is there, at rest and covered by nothing."""
        self._do(self._first(selector).click)

    def fill(self, selector: str, text: str) -> None:
        self._do(lambda: self._first(selector).fill(text))

    def press(self, text: str) -> None:
        """Types text into what has the focus."""
        self._do(lambda: self._page.keyboard.insert_text(text))

    def choose(self, selector: str, value: str) -> None:
        """An entry of the first such list, by its value."""
        self._do(lambda: self._first(selector).select_option(value=value))

    def download(self, selector: str) -> Path:
        """The file that a click on this link saves, under the name it is offered under."""

        def saved() -> Path:
            with self._page.expect_download() as begun:
                self._first(selector).click()
            path = self._directory / begun.value.suggested_filename
            begun.value.save_as(path)
            return path

        return self._do(saved)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        self._do(lambda: self._page.screenshot(path=path, full_page=whole))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return self._do(lambda: self._page.pdf(print_background=True, prefer_css_page_size=True))

    def close(self) -> None:
        """With its profile."""
        self._do(self._page.context.close)

    def _is_true(self, expression: str) -> bool:
        try:
            return bool(self.evaluate(expression))
        except playwright.Error as exc:
            if GONE in exc.message:
                return False
            raise

    def _first(self, selector: str) -> playwright.Locator:
        return self._page.locator(selector).first

    def _listen(self) -> None:
        self._page.on("pageerror", lambda error: self.errors.append(str(error)))
        self._page.on("console", self._note)

    def _note(self, message: playwright.ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(NOT_200):
            self.errors.append(message.text)


@contextlib.contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """Yield a page in a profile of its own; a failing block leaves a picture in `directory`."""
    page = Page(Chromium.running(), directory)
    try:
        yield page
    except BaseException:
        with contextlib.suppress(playwright.Error):
            page.screenshot(directory / "failed.png")
        raise
    finally:
        page.close()
