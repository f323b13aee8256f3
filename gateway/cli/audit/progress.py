"""How a run shows that it is getting on: one moving line on a terminal, now and then a plain line elsewhere."""

import time
from typing import TextIO

from benchmarks.runner import Progress

BAR_CELLS = 24
REDRAW_SECONDS = 0.1
PLAIN_SECONDS = 10.0


class ProgressLine:
    """Callable that takes every `Progress` of a run."""

    def __init__(self, label: str, stream: TextIO, *, quiet: bool = False) -> None:
        self._label = label
        self._stream = stream
        self._quiet = quiet
        self._is_terminal = stream.isatty()
        self._drawn_at = float("-inf")
        self._open = False

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        pause = REDRAW_SECONDS if self._is_terminal else PLAIN_SECONDS
        is_last = progress.done == progress.total
        if self._quiet or (now - self._drawn_at < pause and not is_last):
            return
        self._drawn_at = now
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{self._label} {bar(progress)} {in_words(progress)}")
            self._open = True
        else:
            self._stream.write(f"{self._label}: {in_words(progress)}\n")
        self._stream.flush()

    def close(self) -> None:
        """Ends the moving line, so that what follows starts on its own."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False


def bar(progress: Progress) -> str:
    filled = BAR_CELLS * progress.done // progress.total if progress.total else BAR_CELLS
    return "█" * filled + "░" * (BAR_CELLS - filled)


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
