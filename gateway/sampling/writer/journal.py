"""Keeps a worker's counts that are not yet stored in a file mapped into memory, which survives kill -9 but not a crash
of the machine; a living worker locks its file. The writer adds the journals of dead workers to the ledger under the
names of their deliveries, so exactly once (gateway.store.deliveries). Their copies are lost and count as failed.
"""

import fcntl
import logging
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from gateway.errors import StoreError
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store.deliveries import KEPT_SECONDS, Delivery
from gateway.store.ledger import Deltas
from gateway.worker_files import RecordFile, read_record

logger = logging.getLogger(__name__)

SLOT_BYTES = 64 * 1024
"""Two slots, written in turn: a worker that dies while it writes one leaves the other."""
MOST_COUNTERS = 1024
"""Counters of a slot, for counts made after it was written."""
FOLDED_STRATUM = "unclassified"
"""Takes the counts of all strata where they are too many for a slot."""

SUFFIX = ".journal"
"""Suffix of a file's name."""
_STORE = "store"
_COUNTER: Final = "I"
_COUNTERS_BYTES = MOST_COUNTERS * struct.calcsize(_COUNTER)
_TEXT_BYTES = SLOT_BYTES - _COUNTERS_BYTES
_SLOTS_AT = mmap.PAGESIZE
_FILE_BYTES = _SLOTS_AT + 2 * SLOT_BYTES


class Leftover(msgspec.Struct, frozen=True, array_like=True):
    """The counts that would be missing from the ledger if the worker died now."""

    sender: str
    number: int
    """Number of the delivery made last."""
    in_flight: list[tuple[str, str, int]]
    """Stratum, outcome, how many: of that delivery, unless it is known to be stored; its copies as failed."""
    waiting: list[tuple[str, str, int]]
    """Counts of the deliveries after it."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A slot's text. Behind it stand counters, one for each pair of `counted`."""

    left: Leftover
    counted: list[tuple[str, str]]
    """Stratum and outcome of what is counted from then on."""
    at: float
    """Unix seconds."""


class Journal:
    """A worker's end, for one thread. Raises OSError when there can be no file in the directory."""

    def __init__(self, directory: Path, sender: str) -> None:
        self._path = directory / (sender + SUFFIX)
        new = directory / f"{sender}.new"
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(descriptor, bytes(_FILE_BYTES), 0)  # a disk that is full later cannot take it away
        self._file = RecordFile(descriptor)
        self._map = mmap.mmap(descriptor, _FILE_BYTES)
        self._slots = [memoryview(self._map)[_counters(slot)].cast(_COUNTER) for slot in range(2)]
        new.rename(self._path)  # under this name it is never without its lock
        self._slot = 0
        self._counters = self._slots[0]
        self._places: dict[tuple[str, str], int] = {}

    def count(self, pair: tuple[str, str]) -> bool:
        """One more of a stratum and outcome since the last `write`. False when this pair has to be written first."""
        place = self._places.get(pair)
        if place is None:
            return False
        self._counters[place] += 1
        return True

    def write(self, left: Leftover) -> None:
        """Replaces what the journal says, unless the disk takes nothing; what is counted later is added to
        `left.waiting`.
        """
        pairs = dict.fromkeys((*self._places, *((stratum, outcome) for stratum, outcome, _ in left.waiting)))
        counted, places = list(pairs), {pair: place for place, pair in enumerate(pairs)}
        text = msgspec.msgpack.encode(_Entry(left, counted, time.time()))
        if len(text) > _TEXT_BYTES or len(counted) > MOST_COUNTERS:
            counted = [(FOLDED_STRATUM, outcome) for outcome in dict.fromkeys(outcome for _, outcome in pairs)]
            places = {pair: counted.index((FOLDED_STRATUM, pair[1])) for pair in pairs}
            text = msgspec.msgpack.encode(_Entry(_folded(left), counted, time.time()))
        slot = 1 - self._slot
        counters = self._slots[slot]
        counters[:] = _ZEROS
        with suppress(OSError):
            self._file.write(text, _start(slot))
            self._slot, self._counters, self._places = slot, counters, places

    def close(self, *, is_settled: bool) -> None:
        """Deletes it when all is stored, else leaves it to the writer."""
        if is_settled:
            self._path.unlink(missing_ok=True)
        for counters in self._slots:
            counters.release()
        self._map.close()
        self._file.close()


def counts_for(directory: Path, store: str) -> None:
    """Name in a gateway's directory the store, by `store_metadata.identity` (addresses change hands), of its counts."""
    new = directory / f"{_STORE}.{os.getpid()}"
    new.write_text(store)
    new.rename(directory / _STORE)


def store_of(directory: Path) -> str | None:
    """Return the store whose counts are in a directory; None as long as it has not been written there."""
    try:
        return (directory / _STORE).read_text()
    except FileNotFoundError:
        return None


async def settle_orphans(directory: Path, sink: ExchangeSink) -> int:
    """Add dead workers' counts to the ledger, or leave them if that fails; return the number of living journals."""
    living = 0
    for path in _journals(directory):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:  # its worker has just ended
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entry = _read(descriptor)
            if entry is not None and entry.at < time.time() - KEPT_SECONDS:
                logger.warning(
                    "counts of a worker that died %s UTC are given up: what of them is stored is forgotten",
                    time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.at)),
                )
            elif entry is not None:
                await _settle(entry.left, sink)
            path.unlink(missing_ok=True)
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
    return sorted(directory.glob("*" + SUFFIX))


def _counts(entries: list[tuple[str, str, int]]) -> Deltas:
    counts = Counter[tuple[str, str]]()
    for stratum, outcome, count in entries:
        counts[stratum, outcome] += count
    return counts


def _folded(left: Leftover) -> Leftover:
    def folded(entries: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        return entries_of(_counts([(FOLDED_STRATUM, outcome, count) for _, outcome, count in entries]))

    return Leftover(left.sender, left.number, folded(left.in_flight), folded(left.waiting))


def _start(slot: int) -> int:
    return _SLOTS_AT + slot * SLOT_BYTES


def _counters(slot: int) -> slice:
    return slice(_start(slot) + _TEXT_BYTES, _start(slot) + SLOT_BYTES)


_ZEROS = memoryview(bytes(_COUNTERS_BYTES)).cast(_COUNTER)


def _read(descriptor: int) -> _Entry | None:
    """The newest whole entry, what was counted after it among what waits; None when nothing was ever written."""
    record = read_record(descriptor)
    if record is None:
        return None
    entry = msgspec.msgpack.decode(record.text, type=_Entry)
    waiting = Counter(_counts(entry.left.waiting))
    counters = os.pread(descriptor, _COUNTERS_BYTES, record.offset + _TEXT_BYTES)
    for pair, count in zip(entry.counted, memoryview(counters).cast(_COUNTER), strict=False):
        waiting[pair] += count
    return msgspec.structs.replace(entry, left=msgspec.structs.replace(entry.left, waiting=entries_of(waiting)))
