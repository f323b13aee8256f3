"""The replies to a plan, found in its log when they are wanted: memory holds a few numbers an item, and no reply."""

import asyncio
import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.errors import BenchmarkError
from benchmarks.run.log import RunLog
from benchmarks.run.plan import Key, Plan
from benchmarks.suites.protocol import Item, Reply

SAMPLES_AT_ONCE = 1024
"""Places of one item that are looked up together."""
_BYTES = 8
"""Of one place in the file of places."""


class Replies(Mapping[Key, Reply]):
    """The latest reply to every (item, sample) that has one, in the order of the plan.

    A temporary file has a number for each: 0 where there is no reply, else its place in the log, counted from 1, and in
    the last bit whether it is an error.
    """

    def __init__(self, items: Sequence[Item], samples: int, read: Callable[[int], Reply]) -> None:
        """`read` finds the reply at a place of the log."""
        self.n_answered = 0
        """Replies that are no errors."""
        self._items = items
        self._samples = samples
        self._read = read
        self._row = {item.item_id: row for row, item in enumerate(items)}
        self._n_of = array("Q", bytes(8 * len(items)))
        self._n_answered_of = array("Q", bytes(8 * len(items)))
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)

    def put(self, reply: Reply, place: int) -> None:
        """Notes where a reply is; one to no item or sample of the plan is left alone."""
        row = self._row.get(reply.item_id)
        if row is None or not 0 <= reply.sample < self._samples:
            return
        [before] = self._places(row, reply.sample, 1)
        is_error = reply.status == "error"
        try:
            number = ((place + 1) << 1 | is_error).to_bytes(_BYTES, "little")
            os.pwrite(self._file, number, self._offset(row, reply.sample))
        except OSError as exc:
            raise BenchmarkError(f"{tempfile.gettempdir()}: cannot be written: {exc.strerror}") from exc
        answered = (not is_error) - bool(before and not before & 1)
        self._n_of[row] += not before
        self._n_answered_of[row] += answered
        self.n_answered += answered

    def missing(self, first: int = 0, past: int | None = None) -> Iterator[tuple[Item, int, Reply | None]]:
        """Item and sample of every reply to be asked for, with the reply that failed where there is one; of the items
        from `first` to before `past`.
        """
        for row in range(first, len(self._items) if past is None else past):
            if self._n_answered_of[row] == self._samples:
                continue
            for sample, number in self._numbers(row):
                if not number or number & 1:
                    yield self._items[row], sample, self._reply(number) if number else None

    def n_missing(self, first: int, past: int) -> int:
        """How many replies are to be asked for of these items."""
        return (past - first) * self._samples - sum(self._n_answered_of[first:past])

    def lacks(self, item_id: str, sample: int) -> bool:
        """Whether a reply of the plan is still to be asked for."""
        row = self._row.get(item_id)
        if row is None or not 0 <= sample < self._samples:
            return False
        [number] = self._places(row, sample, 1)
        return not number or bool(number & 1)

    def to(self, item: Item) -> Iterator[Reply]:
        """The replies to one item, by sample."""
        row = self._row[item.item_id]
        if self._n_of[row]:
            yield from (self._reply(number) for _, number in self._numbers(row) if number)

    def n_to(self, item: Item) -> int:
        """How many replies an item has."""
        return self._n_of[self._row[item.item_id]]

    def __getitem__(self, key: Key) -> Reply:
        item_id, sample = key
        row = self._row[item_id]
        [number] = self._places(row, sample, 1) if 0 <= sample < self._samples else [0]
        if not number:
            raise KeyError(key)
        return self._reply(number)

    def __iter__(self) -> Iterator[Key]:
        for row, item in enumerate(self._items):
            if self._n_of[row]:
                yield from ((item.item_id, sample) for sample, number in self._numbers(row) if number)

    def __len__(self) -> int:
        return sum(self._n_of)

    def _reply(self, number: int) -> Reply:
        return self._read((number >> 1) - 1)

    def _numbers(self, row: int) -> Iterator[tuple[int, int]]:
        for start in range(0, self._samples, SAMPLES_AT_ONCE):
            count = min(SAMPLES_AT_ONCE, self._samples - start)
            yield from enumerate(self._places(row, start, count), start)

    def _places(self, row: int, start: int, count: int) -> Sequence[int]:
        content = os.pread(self._file, _BYTES * count, self._offset(row, start))
        return memoryview(content.ljust(_BYTES * count, b"\0")).cast("Q").tolist()

    def _offset(self, row: int, sample: int) -> int:
        return _BYTES * (row * self._samples + sample)


async def kept(plan: Plan, log: RunLog) -> Replies:
    """What the log has of a plan."""
    replies = Replies(plan.items, plan.options.samples, log.reply)
    async for batch in log.read():
        for place, reply in batch:
            replies.put(reply, place)
        await asyncio.sleep(0)
    return replies
