"""An end to computations whose time depends on what strangers wrote."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TimeLimitError(Exception):
    """A computation took more of the processor's time than it may."""


@contextlib.contextmanager
def processor_time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError in the block after so much processor time; main thread only, others run on. Not nestable."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise TimeLimitError
