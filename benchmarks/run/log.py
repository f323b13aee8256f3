"""The log of a run's replies, and the replies to a plan: memory holds a few numbers an item, and no reply."""

import asyncio
import os
import tempfile
import weakref
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import IO, Protocol

import msgspec

from auditors.json_errors import UNREADABLE
from benchmarks.errors import BenchmarkError, writing
from benchmarks.run.plan import Key, Plan
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.protocol import Item, Reply

Placed = tuple[int, Reply]

BLOCK_BYTES = 1 << 18
LINE_BYTES = 2048
"""Bytes that are read of a line at first; few lines are longer."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """The knowledge of a log about a run that another process, or an earlier attempt, may have begun."""

    started_at: float
    """Unix seconds of the run's first start; of a stored run, later by the time it stood still, cancelled or failed."""
    seconds: float = 0.0
    """Seconds taken before this process: in the store since `started_at`, waits included; else until the last reply."""
    thinking: ThinkingFound | None = None
    """The handling of thinking by the model's server when it was last asked."""


class RunLog(Protocol):
    """The store of a run's replies. A later reply to the same (item_id, sample) replaces the earlier one."""

    async def begin(self) -> Beginning:
        """Notes that the run goes on from now, and returns what was kept of it. Called once, before anything else."""

    async def keep_thinking(self, thinking: ThinkingFound) -> None:
        """Keeps what the model's server does about thinking, in place of what was kept before."""

    def read(self) -> AsyncIterator[Sequence[Placed]]:
        """Replies kept so far, some at a time; of two to the same (item_id, sample) the later one comes later."""

    async def append(self, replies: Sequence[Reply]) -> Sequence[int]:
        """Keeps replies; when it returns, they survive the death of this process. Returns the place of each."""

    def reply(self, place: int) -> Reply:
        """Return the reply at a place. May be called from any thread."""

    async def keep_items(self, items: Sequence[Item]) -> None:
        """Keeps all items of a plan that has grown since the log was made."""


class ReplyLines:
    """Replies as lines of JSON in a file that is only appended to. A reply's place is the offset of its line."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        """`file`: open for reading and for unbuffered appending; may be closed afterwards. `name`: for messages."""
        self._name = name
        self._fd = os.dup(file.fileno())  # stays open as long as somebody may read
        weakref.finalize(self, os.close, self._fd)
        self._end = os.fstat(self._fd).st_size
        self._decoder = msgspec.json.Decoder(Reply)

    def append(self, lines: Sequence[bytes]) -> list[int]:
        """Writes encoded replies, each without a newline, and returns their places. Raises BenchmarkError."""
        *places, self._end = accumulate((len(line) + 1 for line in lines), initial=self._end)
        with writing(self._name):
            content = memoryview(b"".join(line + b"\n" for line in lines))
            while content:
                content = content[os.write(self._fd, content) :]
        return places

    def reply(self, place: int) -> Reply:
        """The reply at a place. Raises BenchmarkError where there is none."""
        size = LINE_BYTES
        while True:
            content = os.pread(self._fd, size, place)
            line, newline, _ = content.partition(b"\n")
            if newline:
                return self._decoder.decode(line)
            if len(content) < size:
                raise BenchmarkError(f"{self._name}: was shortened while it was read: start the run again")
            size *= 8

    def batches(self) -> Iterator[list[Placed]]:
        """Yield every whole line, a block at a time. Raises BenchmarkError for other lines."""
        end, start, number, size = self._end, 0, 0, BLOCK_BYTES
        while start < end:
            content = os.pread(self._fd, min(size, end - start), start)
            whole = content.rfind(b"\n") + 1
            if not whole:
                if len(content) < size:
                    return
                size *= 8
                continue
            batch, place = [], start
            for line in content[: whole - 1].split(b"\n"):
                number += 1
                if line.strip():
                    batch.append((place, self._decoded(line, number)))
                place += len(line) + 1
            yield batch
            start, size = start + whole, BLOCK_BYTES

    def _decoded(self, line: bytes, number: int) -> Reply:
        try:
            return self._decoder.decode(line)
        except UNREADABLE as exc:
            raise BenchmarkError(f"{self._name}, line {number}: {exc}: mend or remove the line") from exc


SAMPLES_AT_ONCE = 1024
"""Places of an item that are looked up together."""
_BYTES = 8


class Replies(Mapping[Key, Reply]):
    """The latest reply to every (item, sample). Its file has 0, or place + 1 shifted left, the last bit for errors."""

    def __init__(self, items: Sequence[Item], samples: int, read: Callable[[int], Reply]) -> None:
        """`read` finds the reply at a place of the log."""
        self.n_answered = 0
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
        with writing(tempfile.gettempdir()):
            number = ((place + 1) << 1 | is_error).to_bytes(_BYTES, "little")
            os.pwrite(self._file, number, self._offset(row, reply.sample))
        answered = (not is_error) - bool(before and not before & 1)
        self._n_of[row] += not before
        self._n_answered_of[row] += answered
        self.n_answered += answered

    def missing(self, first: int = 0, past: int | None = None) -> Iterator[tuple[Item, int, Reply | None]]:
        """Item, sample and failed reply, if any, of each reply to ask for, in rows `first` to `past`."""
        for row in range(first, len(self._items) if past is None else past):
            if self._n_answered_of[row] == self._samples:
                continue
            for sample, number in self._numbers(row):
                if not number or number & 1:
                    yield self._items[row], sample, self._reply(number) if number else None

    def n_missing(self, first: int, past: int) -> int:
        """Return how many replies are to be asked for of these items."""
        return (past - first) * self._samples - sum(self._n_answered_of[first:past])

    def lacks(self, item_id: str, sample: int) -> bool:
        """Return whether a reply of the plan is still to be asked for."""
        row = self._row.get(item_id)
        if row is None or not 0 <= sample < self._samples:
            return False
        [number] = self._places(row, sample, 1)
        return not number or bool(number & 1)

    def to(self, item: Item) -> Iterator[Reply]:
        row = self._row[item.item_id]
        if self._n_of[row]:
            yield from (self._reply(number) for _, number in self._numbers(row) if number)

    def n_to(self, item: Item) -> int:
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
    replies = Replies(plan.items, plan.options.samples, log.reply)
    async for batch in log.read():
        for place, reply in batch:
            replies.put(reply, place)
        await asyncio.sleep(0)
    return replies
