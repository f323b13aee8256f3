"""The bar and the words of a long command's progress."""

import contextlib
import os
import pty

from benchmarks.run.runner import Progress
from gateway.terminal.progress import ProgressLine


def test_the_bar_ends_at_the_latest_progress() -> None:
    """What came too soon after the last drawing is drawn when the bar is closed."""
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        line = ProgressLine("stereoset", stream)
        for done in (1, 2, 3):
            line(Progress(done=done, total=48, rate=8.0, eta_seconds=6.0, n_errors=0))
        line.close()
    shown = ""
    with contextlib.suppress(OSError):  # the terminal is closed and everything was read
        while piece := os.read(master, 65536):
            shown += piece.decode()
    os.close(master)

    assert "1/48 asked" in shown
    assert "2/48 asked" not in shown
    assert "3/48 asked, 8.0/s, 0:06 left" in shown
