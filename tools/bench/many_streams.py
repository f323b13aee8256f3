"""5,000 live streams: times of the API and of /metrics, and what a bystander notices. SQLite, and PostgreSQL.

`python -m tools.bench.many_streams [--rounds N]`; the figures are in docs/evidence/drift.md. It runs on an earlier
version of the code as well: copy it there with tests/support/store/many_streams.py.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from gateway.store.database import Database
from tests.support.integration.serving import Command, children_of, command, serving
from tests.support.postgres import Scratch
from tests.support.store import many_streams

PATHS = (
    "/live/estimates",
    "/live/estimates?model=model-07&axis=race",
    "/live/detectors",
    "/live/detectors?model=model-07&axis=race",
    "/live/alarms",
    "/live/estimates?window=500",
)
ENVIRON = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


async def measure(url: str, rounds: int) -> None:
    database = await Database.open(url)
    await many_streams.fill(database)
    await database.close()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "biasgate.toml"
        config.write_text(
            f'[store]\nurl = "{url}"\n[[upstreams]]\nname = "up"\nbase_url = "http://127.0.0.1:9"\n'
            "[server]\nauditor_metrics_port = 0\n"
        )
        async with serving("gateway", "--config", str(config), "--workers", "1", environ=ENVIRON) as running:
            for path in PATHS:
                await report(running, path, rounds)
        async with command("auditor", "--config", str(config), environ=ENVIRON) as running:
            running.root = (await running.line("auditor is ready")).split("metrics ")[1].removesuffix("/metrics")
            await metrics(running, rounds)


async def report(running: Command, path: str, rounds: int) -> None:
    """Wall and processor time of the worker for one request, and the slowest answer to a bystander meanwhile."""
    async with httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http:
        if (await http.get(path)).status_code != 200:
            print(f"  {path}: not in this version")
            return
        seconds, spent, worst = [], [], []
        for _ in range(rounds):
            started, before = time.perf_counter(), processor_seconds(running.process.pid)
            slowest = await beside(http, lambda: http.get(path))
            seconds.append(time.perf_counter() - started)
            spent.append(processor_seconds(running.process.pid) - before)
            worst.append(slowest)
    print(
        f"  {path:45s} {ms(seconds)} ms, processor of the gateway {ms(spent)} ms, bystander at most {ms(worst)} ms",
        flush=True,
    )


async def beside(http: httpx.AsyncClient, ask: Callable[[], Awaitable[httpx.Response]]) -> float:
    """Slowest of the health checks that are asked one after the other while the request goes on."""
    asking, slowest = asyncio.ensure_future(ask()), 0.0
    while not asking.done():
        started = time.perf_counter()
        await http.get("/livez")
        slowest = max(slowest, time.perf_counter() - started)
    await asking
    return slowest


async def metrics(running: Command, rounds: int) -> None:
    async with httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http:
        while "biasgate_live_estimate{" not in (await http.get("/metrics")).text:  # noqa: ASYNC110 - it will be
            await asyncio.sleep(0.2)
        seconds, size = [], 0
        for _ in range(rounds):
            started = time.perf_counter()
            size = len((await http.get("/metrics")).content)
            seconds.append(time.perf_counter() - started)
        before, started = processor_seconds(running.process.pid), time.perf_counter()
        await asyncio.sleep(10)
        share = (processor_seconds(running.process.pid) - before) / (time.perf_counter() - started)
    print(f"  auditor /metrics ({size / 1e6:.1f} MB) {ms(seconds)} ms; at rest {100 * share:.1f} % of a processor")


def processor_seconds(pid: int) -> float:
    """Of a process and those that it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(id_) for ids in children_of(pid).values() for id_ in ids)


def ms(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):6.1f} (least {1000 * min(seconds):.1f})"


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        print("SQLite", flush=True)
        await measure(f"sqlite:///{directory}/biasgate.db", rounds)
    if os.environ.get("BIASGATE_BENCH_POSTGRES", "1") == "1":
        scratch = Scratch()
        try:
            print("PostgreSQL", flush=True)
            await measure(scratch.emptied(keep_tables=False), rounds)
        finally:
            scratch.drop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    asyncio.run(main(parser.parse_args().rounds))
