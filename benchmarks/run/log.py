"""Where the replies of a run are kept, and how one is found again without holding the others in memory."""

import os
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import IO, Protocol

import msgspec

from auditors.json_errors import UNREADABLE
from benchmarks.errors import BenchmarkError
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.protocol import Item, Reply

Placed = tuple[int, Reply]
"""A reply, and where its log has it."""

BLOCK_BYTES = 1 << 18
LINE_BYTES = 2048
"""What is read of a line at first; few are longer."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a log knows about a run before this process asks anything: more than nothing where another process, or an
    earlier attempt, has begun it.
    """

    started_at: float
    """Unix seconds at which the run was first started; of a run in the store that was cancelled or had failed, later
    by the time that it stood still."""
    seconds: float = 0.0
    """How long it had run by the time at which this process took it on: the wall time since `started_at`, where it is
    in the store with the time after which another auditor took it over; in a directory until its last reply."""
    thinking: ThinkingFound | None = None
    """What the model's server did about thinking when it was last asked."""


class RunLog(Protocol):
    """Where replies are kept. A later reply to the same (item_id, sample) replaces the earlier one."""

    async def begin(self) -> Beginning:
        """Notes that the run goes on from now, and returns what was kept of it. Called once, before anything else."""
        ...

    async def keep_thinking(self, found: ThinkingFound) -> None:
        """Keeps what the model's server does about thinking, in place of what was kept before."""
        ...

    def read(self) -> AsyncIterator[Sequence[Placed]]:
        """Replies kept so far, some at a time; of two to the same (item_id, sample) the later one comes later."""
        ...

    async def append(self, replies: Sequence[Reply]) -> Sequence[int]:
        """Keeps replies; when it returns, they survive the death of this process. Returns the place of each."""
        ...

    def reply(self, place: int) -> Reply:
        """What was kept at a place. May be called from any thread."""
        ...

    async def keep_items(self, items: Sequence[Item]) -> None:
        """Keeps all items of a plan that has grown since the log was made."""
        ...


class ReplyLines:
    """Replies as lines of JSON in a file that is only appended to. A reply's place is the offset of its line."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        """
        Args:
            file: open for reading, and for appending without a buffer of its own in use; may be closed afterwards.
            name: of the file, for messages.
        """
        self._name = name
        self._fd = os.dup(file.fileno())  # stays open as long as somebody may read
        weakref.finalize(self, os.close, self._fd)
        self._end = os.fstat(self._fd).st_size
        self._decoder = msgspec.json.Decoder(Reply)

    def append(self, lines: Sequence[bytes]) -> list[int]:
        """Writes encoded replies, each without a newline, and returns their places. Raises BenchmarkError."""
        places = []
        for line in lines:
            places.append(self._end)
            self._end += len(line) + 1
        try:
            content = memoryview(b"".join(line + b"\n" for line in lines))
            while content:
                content = content[os.write(self._fd, content) :]
        except OSError as exc:
            raise BenchmarkError(f"{self._name}: cannot be written: {exc.strerror}") from exc
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
        """Every reply in the file now, a block at a time; what follows the last newline is none.

        Raises: BenchmarkError for a line that is no reply.
        """
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
