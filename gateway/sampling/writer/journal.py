"""What a worker has counted and not yet seen stored, in a file that outlives it: kill -9 takes no count along.

A worker writes its journal every JOURNAL_SECONDS, into the page cache and no further: what survives is the death of the
process, not that of the machine. While it lives it holds a lock on the file. The writer adds what the journals of dead
workers say to the ledger, under the names of the deliveries it would have come with, so exactly once
(gateway.store.deliveries), and deletes them. Copies die with their worker: they are counted as failed.
"""

import fcntl
import logging
import os
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from gateway.errors import StoreError
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

logger = logging.getLogger(__name__)

JOURNAL_SECONDS = 0.1
SLOT_BYTES = 64 * 1024
"""Two slots, written in turn: a worker that dies while it writes one leaves the other."""
FOLDED_STRATUM = "unclassified"
"""Takes the counts of all strata where they are too many for a slot."""

_SUFFIX = ".journal"
_HEAD = struct.Struct(">QII")
"""Number of the entry, length of its text, checksum of both."""


class Leftover(msgspec.Struct, frozen=True, array_like=True):
    """What would be missing from the ledger if the worker died now."""

    sender: str
    number: int
    """Of the delivery made last."""
    in_flight: list[tuple[str, str, int]]
    """Stratum, outcome, how many: of that delivery, unless it is known to be stored; its copies as failed."""
    waiting: list[tuple[str, str, int]]
    """Of the deliveries after it."""


class Journal:
    """A worker's end. Use from one thread.

    Raises: OSError when there can be no file in the directory.
    """

    def __init__(self, directory: Path, sender: str) -> None:
        self._path = directory / (sender + _SUFFIX)
        new = directory / f"{sender}.new"
        self._descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(self._path)  # under this name it is never without its lock
        self._number = 0
        self._text = b""

    def write(self, left: Leftover) -> None:
        """Replaces what the journal says."""
        text = msgspec.msgpack.encode(left)
        if len(text) > SLOT_BYTES - _HEAD.size:
            text = msgspec.msgpack.encode(_folded(left))
        if text == self._text:
            return
        self._text = text
        self._number += 1
        head = _HEAD.pack(self._number, len(text), zlib.crc32(text, self._number & 0xFFFFFFFF))
        os.pwrite(self._descriptor, head + text, self._number % 2 * SLOT_BYTES)

    def close(self, *, is_settled: bool) -> None:
        """Deletes it when all is stored, else leaves it to the writer."""
        if is_settled:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


async def settle_orphans(directory: Path, sink: ExchangeSink) -> int:
    """Adds what dead workers left behind to the ledger. Returns how many journals of living workers there are.

    What the store does not take now is left for the next call.
    """
    living = 0
    for path in _journals(directory):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:  # its worker has just ended
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = _read(descriptor)
            if left is not None:
                await _settle(left, sink)
            _delete(path)
        except BlockingIOError:  # its worker lives
            living += 1
        except StoreError as exc:
            logger.warning("counts of a worker that died wait: %s", exc)
        finally:
            os.close(descriptor)
    return living


async def _settle(left: Leftover, sink: ExchangeSink) -> None:
    """Whatever of it is in the store already is not added again, and what comes later under these names is not."""
    for number, entries in ((left.number, left.in_flight), (left.number + 1, left.waiting)):
        if counts := _counts(entries):
            await sink.write([], counts, Delivery(left.sender, number, time.time()))
    waiting = _counts(left.waiting)
    lost = sum(count for (_, outcome), count in waiting.items() if outcome == "failed")
    logger.warning(
        "a worker died: %d requests that it had not handed over are in the ledger, %d of them as failed copies",
        sum(waiting.values()),
        lost,
    )


def entries_of(counts: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
    """Counts as a `Leftover` holds them."""
    return [(stratum, outcome, count) for (stratum, outcome), count in counts.items() if count]


def _journals(directory: Path) -> list[Path]:
    return sorted(directory.glob("*" + _SUFFIX))


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)


def _counts(entries: list[tuple[str, str, int]]) -> Deltas:
    counts = Counter[tuple[str, str]]()
    for stratum, outcome, count in entries:
        counts[stratum, outcome] += count
    return counts


def _folded(left: Leftover) -> Leftover:
    def folded(entries: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        return entries_of(_counts([(FOLDED_STRATUM, outcome, count) for _, outcome, count in entries]))

    return Leftover(left.sender, left.number, folded(left.in_flight), folded(left.waiting))


def _read(descriptor: int) -> Leftover | None:
    """The newest whole entry; None when nothing was ever written."""
    found = sorted(_entries(descriptor), reverse=True)
    return msgspec.msgpack.decode(found[0][1], type=Leftover) if found else None


def _entries(descriptor: int) -> Iterator[tuple[int, bytes]]:
    for slot in range(2):
        content = os.pread(descriptor, SLOT_BYTES, slot * SLOT_BYTES)
        if len(content) < _HEAD.size:
            continue
        number, length, checksum = _HEAD.unpack_from(content)
        text = content[_HEAD.size : _HEAD.size + length]
        if number and zlib.crc32(text, number & 0xFFFFFFFF) == checksum:
            yield number, text
