"""What one worker knows of waiting requests, others read on the same machine; what is old, nobody."""

import os
import subprocess
import sys
import time
from pathlib import Path

from gateway.proxy.live_waits import LiveWaits, Waiting, Waits
from gateway.proxy.waits_board import STALE_SECONDS, BoardFile, BoardReader
from gateway.worker_files import ABANDONED_SECONDS

NOW = 1000.0
ONE = Waits(Waiting(2, 990.0, 10, 5.0, 3.0), Waiting(), 7)
OTHER = Waits(Waiting(1, 980.0, 1, 0.5, 0.25), Waiting(3, 999.0), 4)


def test_workers_add_up(tmp_path: Path) -> None:
    """Counts are sums, the oldest is the oldest of all; a reader may leave its own file out."""
    one, other = BoardFile(tmp_path), BoardFile(tmp_path)
    one.show({"http://h": ONE}, NOW)
    other.show({"http://h": OTHER, "http://i": Waits()}, NOW)
    both = BoardReader(tmp_path).read(NOW)
    assert both == {"http://h": Waits(Waiting(3, 980.0, 11, 5.5, 3.25), Waiting(3, 999.0), 11), "http://i": Waits()}
    assert BoardReader(tmp_path, without=one.name).read(NOW) == {"http://h": OTHER, "http://i": Waits()}


def test_what_is_old_says_nothing(tmp_path: Path) -> None:
    """A worker that has not written for a second is left out; nobody left is not the same as nobody waiting."""
    file, reader = BoardFile(tmp_path), BoardReader(tmp_path)
    assert reader.read(NOW) is None
    file.show({}, NOW)
    assert BoardReader(tmp_path).read(NOW) == {}
    file.show({"http://h": ONE}, NOW)
    reader = BoardReader(tmp_path)
    assert reader.read(NOW + STALE_SECONDS / 2) == {"http://h": ONE}
    assert reader.read(NOW + STALE_SECONDS) is None
    assert reader.read(NOW - STALE_SECONDS) is None  # written before the machine's clock began anew


def test_files_go_with_their_workers(tmp_path: Path) -> None:
    """An orderly end takes the file away; what a killed worker left goes when the next one starts."""
    file, reader = BoardFile(tmp_path), BoardReader(tmp_path)
    file.show({"http://h": ONE}, NOW)
    assert reader.read(NOW) == {"http://h": ONE}
    file.close()
    assert reader.read(NOW + 1.0) is None
    assert list(tmp_path.iterdir()) == []
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, young, stopped = (tmp_path / f"{pid}-0.waits" for pid in (ended.pid, f"0{ended.pid}", os.getpid()))
    then = time.time() - 2 * ABANDONED_SECONDS
    for path in (left, young, stopped):
        path.touch()
        os.utime(path, None if path == young else (then, then))
    BoardFile(tmp_path)
    assert not left.exists()
    assert young.exists()
    assert stopped.exists()


def test_a_request_is_counted_until_its_first_byte() -> None:
    """The oldest of those that wait counts; waits of those that no more do are summed, also by their squares."""
    waits = LiveWaits()
    waits.streams.waiting |= {"a": 1.0, "b": 2.0}
    waits.replies.waiting["c"] = 3.0
    waits.audits.waiting["d"] = 4.0
    waits.streams.first_byte("a", 1.5)
    waits.replies.first_byte("c", 5.0)
    waits.streams.first_byte("nobody", 9.0)
    waits.audits.first_byte("d", 9.0)
    assert waits.snapshot(6) == Waits(Waiting(1, 2.0, 1, 0.5, 0.25), Waiting(0, 0.0, 1, 2.0, 4.0), 5)
