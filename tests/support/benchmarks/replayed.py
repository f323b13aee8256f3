"""Logs of runs that were asked already, as large as a test wants them, from the recorded replies of each suite."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from auditors.types import Completion, CompletionRequest
from benchmarks.run import directory
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.score import read_reply
from benchmarks.suites.protocol import Reply

RECORDED = Path(__file__).parents[2] / "benchmarks" / "recorded"
SUITES = sorted(path.name.split(".")[0] for path in RECORDED.glob("*.corrected.sample.jsonl.gz"))
FILLER = {"prompt_tokens": 1, "filler": "x" * 2000}
"""Makes every reply as long as one with a page of text, without a suite reading it."""


class Saying:
    """A completer that says the same whatever it is asked."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def complete(self, request: CompletionRequest) -> Completion:
        return Completion(text=self._text, finish_reason="stop", usage={"prompt_tokens": 1})

    async def aclose(self) -> None:
        """Holds nothing open."""


@asynccontextmanager
async def saying(answer: Callable[[], bytes]) -> AsyncIterator[str]:
    """URL of a server that writes what `answer` gives at each request, whatever is asked; nothing is an answer too."""
    connections: set[asyncio.StreamWriter] = set()
    open_ones: set[asyncio.Task[None]] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        with suppress(ConnectionError):
            while await reader.read(65536):
                writer.write(answer())
        connections.discard(writer)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.add(asyncio.ensure_future(take(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.close()
        await asyncio.gather(*open_ones)


def recorded_plan(suite: str, *, samples: int, limit: int | None) -> Plan:
    """A run of the suite's built-in items at the seed of the recorded replies."""
    options: dict[str, Any] = {"suite": suite, "model": "simulated", "data": "embedded", "seed": 1}
    return prepare(RunOptions(**options, samples=samples, limit=limit))


def answered(path: Path, plan: Plan) -> directory.DirectoryLog:
    """The log of a run directory that has a recorded reply to every (item, sample) of the plan."""
    lines = gzip.decompress((RECORDED / f"{plan.suite.name}.corrected.sample.jsonl.gz").read_bytes()).splitlines()
    recorded = {reply.item_id: reply for reply in (msgspec.json.decode(line, type=Reply) for line in lines)}
    directory.create(path, plan, directory.manifest(plan))
    with (path / directory.RESPONSES).open("wb") as file:
        for item in plan.items:
            for sample in range(plan.options.samples):
                reply = _measured(read_reply(plan, item, recorded[item.item_id]), item.groups, sample)
                file.write(msgspec.json.encode(msgspec.structs.replace(reply, sample=sample, usage=FILLER)) + b"\n")
    return directory.DirectoryLog(path)


def _measured(reply: Reply, groups: Sequence[str], sample: int) -> Reply:
    """A text of CoGS with a distance, as its embedder would have given it."""
    if reply.status != "ok" or not isinstance(reply.parsed, dict) or "names_identity" not in reply.parsed:
        return reply
    distance = len(groups[0]) / 100 + sample / 1000
    return msgspec.structs.replace(reply, parsed={**reply.parsed, "distance": distance, "embedder": "e"})
