"""What one worker knows of waiting requests, others read on the same machine; what is old or half written, nobody."""

import os
import time
from pathlib import Path

import pytest

from gateway.proxy.live_waits import LiveWaits, Waiting, Waits
from gateway.proxy.waits_board import ABANDONED_SECONDS, STALE_SECONDS, BoardFile, BoardReader

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


@pytest.mark.parametrize("damage", [b"", b"\0" * 8, b"\xff" * 64])
def test_a_half_written_file_is_passed_over(tmp_path: Path, damage: bytes) -> None:
    """Whatever stands in one file, the others are read."""
    file, reader = BoardFile(tmp_path), BoardReader(tmp_path)
    file.show({"http://h": ONE}, NOW)
    (tmp_path / "1-00000000.waits").write_bytes(damage)
    assert reader.read(NOW) == {"http://h": ONE}


def test_files_go_with_their_workers(tmp_path: Path) -> None:
    """An orderly end takes the file away; what a killed worker left goes when the next one starts."""
    file, reader = BoardFile(tmp_path), BoardReader(tmp_path)
    file.show({"http://h": ONE}, NOW)
    assert reader.read(NOW) == {"http://h": ONE}
    file.close()
    assert reader.read(NOW + 1.0) is None
    assert list(tmp_path.iterdir()) == []
    left, young = tmp_path / "1-00000000.waits", tmp_path / "2-00000000.waits"
    left.touch()
    young.touch()
    then = time.time() - 2 * ABANDONED_SECONDS
    os.utime(left, (then, then))
    BoardFile(tmp_path)
    assert not left.exists()
    assert young.exists()


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
