"""One suite run over several auditor processes on PostgreSQL: requests a second, and what a request costs an auditor.

A model that answers at once shares the processors with the auditors and PostgreSQL: requests a second end where those
do. With --seconds an auditor waits for its 16 requests in flight, as for a real model. Costs are processor time, from a
tenth to nine tenths of the run, of all auditors together.

Examples:
  python -m tools.bench.shared_runs --auditors 1 2 4 --samples 200
  python -m tools.bench.shared_runs --auditors 3 --samples 1 --mirror DIRECTORY              # BBQ's 58,492 items
  python -m tools.bench.shared_runs --auditors 3 --samples 171 --mirror DIRECTORY --until 1000000  # of 10 million
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from benchmarks.datasets import fetching
from benchmarks.suites import registry
from benchmarks.suites.bbq.suite import SOURCE
from benchmarks.suites.protocol import DataKind
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.tables import run_responses
from tests.support.integration.running_suites import ask_for_run, await_status
from tests.support.integration.serving import command
from tests.support.postgres import Scratch
from tests.support.processes import free_port, running

SUITE = "bbq"
TICK = os.sysconf("SC_CLK_TCK")

CONFIG = """
[store]
url = "{url}"
[server]
auditor_metrics_port = 0
[[upstreams]]
name = "up"
base_url = "{upstream}"
models = ["m"]
[auditors.judge]
model = "m"
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
"""


class Moment(NamedTuple):
    """Where a run is."""

    at: float
    replies: int
    loop_seconds: float
    process_seconds: float


async def measured(
    n_auditors: int, data: DataKind, samples: int, until: int | None, upstream: str, home: Path, scratch: Scratch
) -> str:
    """One run, in a line."""
    planned = registry.SUITES[SUITE].n_items[data] * samples
    asked = min(planned, until or planned)
    database = await Database.open(scratch.emptied(keep_tables=True))
    path = home / f"{n_auditors}.toml"
    path.write_text(CONFIG.format(url=database.url, upstream=upstream))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        environ = {"BIASGATE_HOME": str(home)}
        auditors = [
            await stack.enter_async_context(command("auditor", "--config", str(path), environ=environ))
            for _ in range(n_auditors)
        ]
        for auditor in auditors:
            await auditor.line("ready")
        pids = [auditor.process.pid for auditor in auditors]
        began = time.perf_counter()
        run_id = await ask_for_run(database, suite=SUITE, model="m", data=data, samples=samples)
        first = await _moment(database, run_id, pids, at_least=asked // 10)
        peaks_before = [_peak_megabytes(pid) for pid in pids]
        last = await _moment(database, run_id, pids, at_least=asked * 9 // 10)
        if asked < planned:
            await runs.cancel(database, run_id)
            end = f"cancelled after {last.replies:,} of {planned:,} replies"
        else:
            run = await await_status(database, run_id, "done", "failed")
            if run.status != "done":
                raise SystemExit(f"the run failed: {run.error}")
            end = f"{planned:,} replies in {time.perf_counter() - began:.1f} s with score and report"
        peaks = [_peak_megabytes(pid) for pid in pids]
    n = last.replies - first.replies
    loop, process = (last.loop_seconds - first.loop_seconds) / n, (last.process_seconds - first.process_seconds) / n
    return (
        f"{n_auditors} auditor(s): {n / (last.at - first.at):6,.0f} requests/s, {1000 * loop:.3f} ms of the loop a "
        f"request (aim 0.3), {1000 * process:.3f} ms of the whole process; {end}; "
        f"peak {_sum(peaks_before)} MB at {first.replies:,} replies, {_sum(peaks)} MB at the end"
    )


def _sum(megabytes: list[float]) -> str:
    return " + ".join(f"{megabyte:.0f}" for megabyte in megabytes)


async def _moment(database: Database, run_id: str, pids: list[int], *, at_least: int) -> Moment:
    query = sa.select(sa.func.count()).where(run_responses.c.run_id == run_id)
    while True:
        run = await runs.get(database, run_id)
        if run is not None and run.progress_done >= at_least:
            async with database.read() as connection:
                replies = int((await connection.execute(query)).scalar() or 0)
            loops, processes = zip(*(_processor_seconds(pid) for pid in pids), strict=True)
            return Moment(time.perf_counter(), replies, sum(loops), sum(processes))
        if run is not None and run.status not in ("queued", "running"):
            raise SystemExit(f"the run is {run.status} after {run.progress_done:,} replies: {run.error}")
        await asyncio.sleep(0.2)


def _processor_seconds(pid: int) -> tuple[float, float]:
    """Of the thread of the event loop, and of the whole process."""
    return _spent(Path(f"/proc/{pid}/task/{pid}/stat")), _spent(Path(f"/proc/{pid}/stat"))


def _spent(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _peak_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.shared_runs", description=__doc__)
    parser.add_argument("--auditors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--samples", type=int, default=200, help="of each item of BBQ")
    parser.add_argument("--mirror", help="BBQ's published items from here instead of its 100 built-in ones")
    parser.add_argument("--until", type=int, help="cancel the run at nine tenths of so many replies")
    parser.add_argument("--seconds", type=float, default=0.0, help="until the model answers")
    arguments = parser.parse_args()
    scratch, port = Scratch(), free_port()
    model = [sys.executable, "-m", "tests.support.integration.instant_model", str(port), str(arguments.seconds)]
    upstream = f"http://127.0.0.1:{port}"
    try:
        with (
            tempfile.TemporaryDirectory() as home,
            running(model, ready_url=f"{upstream}/v1/models", log=Path(home) / "model.log"),
        ):
            if arguments.mirror:
                os.environ["BIASGATE_HOME"] = home
                fetching.fetch(SOURCE, mirror=arguments.mirror)
            data: DataKind = "canonical" if arguments.mirror else "embedded"
            for number in arguments.auditors:
                line = measured(number, data, arguments.samples, arguments.until, upstream, Path(home), scratch)
                print(asyncio.run(line), flush=True)
    finally:
        scratch.drop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
