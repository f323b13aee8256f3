"""The counts that workers leave each other, written and read by a test."""

from pathlib import Path

import msgspec

from gateway.telemetry.worker_stats import Snapshot
from gateway.worker_files import RecordFile, read_record


def leave_counts(path: Path, snapshot: Snapshot) -> None:
    RecordFile.create(path, msgspec.msgpack.encode(snapshot)).close()


def left_counts(path: Path) -> Snapshot:
    with path.open("rb") as file:
        record = read_record(file.fileno())
    assert record is not None
    return msgspec.msgpack.decode(record.text, type=Snapshot)
