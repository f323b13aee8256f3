"""Shows each worker's live waits to the others and to an auditor on this machine (`gateway.worker_files`), in
`server.metrics_dir`, at most every LOOK_SECONDS.
"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from gateway.proxy.live_waits import Waits
from gateway.worker_files import WorkerFile, WorkerFiles

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""Between two looks at what waits."""
HEARTBEAT_SECONDS = 0.25
"""An unchanged state is written again after this time."""
STALE_SECONDS = 1.0

_SUFFIX = ".waits"

Board = Mapping[str, Waits]
"""Origin of an upstream to what is known of its live requests."""


class BoardFile:
    """The file of a single data plane. A disk that takes no byte costs the readers their knowledge and nothing else."""

    def __init__(self, directory: Path) -> None:
        """Makes the file. Raises OSError when the directory cannot be written."""
        self._file = WorkerFile[Board](directory, _SUFFIX)
        self.name = self._file.name
        self.close = self._file.close
        self._written: Board = {}
        self._written_at = float("-inf")
        self._has_failed = False

    def show(self, board: Board, now: float) -> None:
        """Writes what holds at `now`, unless just that was written a moment ago."""
        if board == self._written and now - self._written_at < HEARTBEAT_SECONDS:
            return
        try:
            self._file.write(board, now)
        except OSError as exc:
            if not self._has_failed:
                logger.warning("what waits cannot be shown to the auditors, which ask the servers: %s", exc.strerror)
            self._has_failed = True
            return
        self._written, self._written_at = board, now

    def show_again(self, now: float) -> None:
        """Writes what was shown last, unless that was a moment ago."""
        if now - self._written_at >= HEARTBEAT_SECONDS:
            self.show(self._written, now)


class BoardReader:
    """Adds up the files of all workers in a directory."""

    def __init__(self, directory: Path, *, without: str | None = None) -> None:
        """Opens nothing yet; `without` names a file that is left out, the reader's own."""
        self._files = WorkerFiles(directory, _SUFFIX, dict[str, Waits], fresh_seconds=STALE_SECONDS, without=without)
        self.close = self._files.close

    def read(self, now: float | None = None) -> Board | None:
        """Return the present knowledge; None when the workers have said nothing in the last second."""
        boards = self._files.read(time.perf_counter() if now is None else now)
        waits_by_origin: dict[str, Waits] = {}
        for board in boards:
            for origin, waits in board.items():
                waits_by_origin[origin] = waits_by_origin[origin].plus(waits) if origin in waits_by_origin else waits
        return waits_by_origin if boards else None
