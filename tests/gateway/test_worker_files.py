"""Workers' files: a reader gets a whole record, the newest that was finished, whenever the writer is killed."""

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.worker_files import RecordFile, WorkerFile, WorkerFiles, read_record

WRITER = """
import os, random, sys
from pathlib import Path
from gateway.worker_files import RecordFile
rng = random.Random(int(sys.argv[2]))
file = RecordFile.create(Path(sys.argv[1]), b"0:")
for number in range(1, 10**9):
    file.write(b"%d:" % number + bytes([number % 251]) * rng.randrange(200_000))
    if number == 20:
        print("ready", flush=True)
"""


def checked_number(path: Path) -> int:
    """The number of the file's record, whose bytes are all of it."""
    with path.open("rb") as file:
        record = read_record(file.fileno())
    assert record is not None
    number, _, rest = record.text.partition(b":")
    assert set(rest) <= {int(number) % 251}
    return int(number)


@pytest.mark.parametrize("seed", range(5))
def test_kill_leaves_a_whole_record(tmp_path: Path, seed: int) -> None:
    """Read beside the writer, records are whole and go forward only; so is what kill -9 leaves."""
    path = tmp_path / "own"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(seed)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    numbers = [checked_number(path) for _ in range(random.Random(seed).randrange(20, 60))]
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert numbers == sorted(numbers)
    assert checked_number(path) >= max(20, numbers[-1])
    assert path.stat().st_size < 4 * 200_100


def test_a_full_disk_leaves_the_record_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes half of the bytes raises OSError, and later writes do not touch what is still valid."""
    path, write = tmp_path / "own", os.pwrite
    file = RecordFile.create(path, b"1:" + b"\1" * 100)
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: write(descriptor, data[: len(data) // 2], at))
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file.write(b"2:" + b"\2" * 50)
    monkeypatch.undo()
    assert checked_number(path) == 1
    file.write(b"3:\3")
    assert checked_number(path) == 3


@pytest.mark.parametrize("damage", [b"", b"\0" * 80, b"\xff" * 80])
def test_damaged_files_are_passed_over(tmp_path: Path, damage: bytes) -> None:
    """Whatever stands in other files of the directory, a fresh value is read, and an old one is not."""
    own = WorkerFile[int](tmp_path, ".number")
    (tmp_path / "1-00000000.number").write_bytes(damage)
    (tmp_path / "2-00000000.number").mkdir()
    RecordFile.create(tmp_path / "3-00000000.number", b"\xc1").close()
    own.write(7, 100.0)
    files = WorkerFiles(tmp_path, ".number", int, fresh_seconds=1.0)
    assert files.read(100.5) == [7]
    assert files.read(101.5) == []
