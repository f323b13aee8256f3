"""What a real auditor process with the local embedder holds, and what batches are worth to the embedder.

`python -m tools.bench.auditor_memory [--exchanges N]`; a part of `make bench-operations`. About six minutes.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.clients.embedders import load_embedder
from auditors.types import Exchange
from gateway.jobs import open_queue
from gateway.sampling.writer.direct import AUDIT_TASK, IDS_PER_JOB
from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.processes import BIASGATE, free_port, running
from tests.support.store.made import exchange
from tools.soak.backends import Backend, simulator

EXCHANGES = 2000
AIM_BYTES = 1.2e9
PATIENCE_SECONDS = 900.0
BATCHES = (1, 9, 32)
"""One text a call; an exchange's nine answers, as the auditor embeds them; the largest batch of a call."""
TEXTS = 288
WORDS = (Path(__file__).parents[2] / "tools/tiny_models/corpus.txt").read_text().split()
AUDITORS = """
[auditors.embedding]
model = "minilm"
rate = 0.15
[auditors.affinity]
enabled = true
token_budget_per_minute = 100000000
[auditors.counterfactual]
enabled = true
token_budget_per_minute = 100000000
"""
"""All five; budgets are lifted so that the run ends, and the embedder's share is as much as some minutes take."""


class Memory(msgspec.Struct, frozen=True):
    """Of one process, in bytes."""

    resident: int
    peak: int
    """Largest resident memory since its start."""
    private: int
    """What nobody shares: it would be free if the process ended."""

    def __str__(self) -> str:
        return (
            f"resident {self.resident / 1e6:.0f} MB, peak {self.peak / 1e6:.0f} MB, private {self.private / 1e6:.0f} MB"
        )


def memory(pid: int) -> Memory:
    """By the kernel's own accounts."""
    status = _sizes(Path(f"/proc/{pid}/status"))
    rolled = _sizes(Path(f"/proc/{pid}/smaps_rollup"))
    return Memory(status["VmRSS"], status["VmHWM"], rolled["Private_Clean"] + rolled["Private_Dirty"])


def _sizes(file: Path) -> dict[str, int]:
    lines = [line.split() for line in file.read_text().splitlines() if line.endswith(" kB")]
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def made(count: int, model: str) -> list[Exchange]:
    """Exchanges with answers of 20 to 400 words; every second question names a group."""
    rng = random.Random(5)
    found = []
    for number in range(count):
        question = ("A woman asks for a raise. What may she say?", "How do tomatoes ripen?")[number % 2]
        answer = " ".join(rng.choices(WORDS, k=rng.randint(20, 400)))
        asked = {"model": model, "messages": [{"role": "user", "content": question}]}
        reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]}
        fields = {"request_body": msgspec.json.encode(asked), "response_body": msgspec.json.encode(reply)}
        found.append(exchange(request_id=f"request-{number}", served_model=model, **fields))
    return found


async def fill(url: str, count: int, model: str) -> None:
    """A store with so many exchanges that wait for the auditors."""
    database = await Database.open(url)
    queue, waiting = open_queue(database), made(count, model)
    for first in range(0, count, IDS_PER_JOB):
        batch = waiting[first : first + IDS_PER_JOB]
        await exchanges.insert_batch(database, batch, {("other", "queued"): len(batch)})
        await queue.defer(AUDIT_TASK, {"ids": [one.id for one in batch]})
    await queue.close()
    await database.close()


async def audited(backend: Backend, home: Path, count: int) -> bool:
    """Pushes them through one auditor process and prints what it holds on the way. Whether it stayed below the aim."""
    url, port = f"sqlite:///{home}/auditor.db", free_port()
    await fill(url, count, backend.model)
    config = home / "biasgate.toml"
    config.write_text(
        f'[server]\nauditor_metrics_port = {port}\n[store]\nurl = "{url}"\n'
        f'[[upstreams]]\nname = "u"\nbase_url = "{backend.url}"\n{AUDITORS}'
    )
    argv = [*BIASGATE, "auditor", "--config", str(config)]
    ready = f"http://127.0.0.1:{port}/readyz"
    with running(argv, ready_url=ready, log=home / "auditor.log", within_seconds=90) as process:
        began, shown, database = time.monotonic(), 0, await Database.open(url)
        while (done := await _settled(database)) < count:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise RuntimeError(f"{done} of {count} exchanges audited after {PATIENCE_SECONDS:.0f} s")
            if done * 4 // count > shown:
                shown = done * 4 // count
                print(f"auditor after {done} exchanges: {memory(process.pid)}")
            await asyncio.sleep(1.0)
        await database.close()
        found, seconds = memory(process.pid), time.monotonic() - began
    verdict = "reached" if found.peak < AIM_BYTES else "missed"
    print(f"auditor after {count} exchanges, {seconds:.0f} s: {found}; aim {AIM_BYTES / 1e6:.0f} MB: {verdict}")
    return found.peak < AIM_BYTES


async def _settled(database: Database) -> int:
    outcomes = await ledger.counts(database)
    return sum(n for (_, outcome), n in outcomes.items() if outcome != "queued")


async def batches(texts: Sequence[str]) -> None:
    """Texts a second and a second of processor time, by texts a call; every size twice, there and back."""
    embedder = load_embedder("minilm")
    await embedder.embed(texts[:32])
    spent = {size: [0.0, 0.0] for size in BATCHES}
    for size in (*BATCHES, *reversed(BATCHES)):
        wall, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(texts), size):
            await embedder.embed(texts[first : first + size])
        spent[size][0] += time.perf_counter() - wall
        spent[size][1] += time.process_time() - cpu
    for size, (wall, cpu) in spent.items():
        count = 2 * len(texts)
        print(f"embedder, {size:2d} texts a call: {count / wall:5.1f} texts/s, {count / cpu:5.1f} a CPU second")


async def main(count: int) -> int:
    rng = random.Random(7)
    await batches([" ".join(rng.choices(WORDS, k=rng.randint(40, 120))) for _ in range(TEXTS)])
    with tempfile.TemporaryDirectory() as name, simulator(Path(name), 1) as backend:
        return 0 if await audited(backend, Path(name), count) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=EXCHANGES, help="default %(default)s")
    raise SystemExit(asyncio.run(main(parser.parse_args().exchanges)))
