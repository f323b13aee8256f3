"""Progress of a long command: bars on a terminal, a plain line every ten seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from auditors.text.visible import visible_line
from benchmarks.run.runner import Progress
from gateway.terminal.guard import unguarded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

BAR_CELLS = 24
REDRAW_SECONDS = 0.1
PLAIN_SECONDS = 10.0


class ProgressLine:
    """Callable that takes every `Progress` of a run: a bar on a terminal, a plain line each PLAIN_SECONDS elsewhere."""

    def __init__(self, label: str, stream: TextIO, *, quiet: bool = False) -> None:
        self._label = visible_line(label)
        self._stream = stream
        self._quiet = quiet
        self._is_terminal = stream.isatty()
        self._drawn_at = float("-inf")
        self._bars: tuple[Bars, TaskID] | None = None
        self._latest: Progress | None = None

    @property
    def done(self) -> int:
        return self._latest.done if self._latest is not None else 0

    def __call__(self, progress: Progress) -> None:
        self._latest = progress
        now = time.monotonic()
        pause = REDRAW_SECONDS if self._is_terminal else PLAIN_SECONDS
        is_last = progress.done == progress.total
        if self._quiet or (now - self._drawn_at < pause and not is_last):
            return
        if self._is_terminal:
            self._draw(progress)
        else:
            self._stream.write(f"{self._label}: {in_words(progress)}\n")
            self._stream.flush()
        self._drawn_at = time.monotonic()  # after the first drawing, which loads the library

    def close(self) -> None:
        """Leaves the bar at the latest progress and ends its line, so that what follows starts on its own."""
        if self._bars is not None and self._latest is not None:
            self._draw(self._latest)
            self._bars[0].stop()
            self._bars = None

    def _draw(self, progress: Progress) -> None:
        if self._bars is None:
            self._bars = _started(self._label, self._stream)
        bars, task = self._bars
        bars.update(task, total=progress.total, completed=progress.done, words=in_words(progress))
        bars.refresh()


def _started(label: str, stream: TextIO) -> "tuple[Bars, TaskID]":
    """Starts a bar that is drawn when told to: it has no thread of its own next to a run's event loop."""
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_CELLS),
        TextColumn("{task.fields[words]}", markup=False),
    )
    bars = Bars(*columns, console=_console(stream), auto_refresh=False, redirect_stdout=False)
    task = bars.add_task(label, total=None, words="")
    bars.start()
    return bars, task


@contextmanager
def download_bar(stream: TextIO) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yields a callback of (bytes received, bytes expected) of downloads; None where there is no terminal."""
    if not stream.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(BAR_CELLS), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bars(*columns, console=_console(stream), transient=True, redirect_stdout=False) as bars:
        task = bars.add_task("", total=None)
        yield lambda received, expected: bars.update(task, completed=received, total=expected)


@contextmanager
def status_line(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """Takes what is being done now: one moving line on a terminal, nothing elsewhere."""
    if not stream.isatty():
        yield lambda _words: None
        return
    with _console(stream).status("") as status:
        yield lambda words: status.update(visible_line(words))


def _console(stream: TextIO) -> "Console":
    from rich.console import Console

    return Console(file=unguarded(stream), highlight=False)


def in_words(progress: Progress) -> str:
    text = f"{progress.done}/{progress.total} asked"
    if progress.n_errors:
        text += f", {progress.n_errors} unanswered"
    if progress.rate:
        text += f", {progress.rate:.1f}/s"
    if progress.eta_seconds and progress.done < progress.total:
        text += f", {duration(progress.eta_seconds)} left"
    return text


def duration(seconds: float) -> str:
    """m:ss, or h:mm:ss from an hour on."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
