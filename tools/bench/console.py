"""Times of the console's pages over 5,000 live streams, 1,000,000 measurements and 500 runs, and what a bystander sees.

`python -m tools.bench.console [--rounds N] [--measurements N]`; the figures are in docs/evidence/console.md. 300,000 of
the measurements are of one stream, whose page is among those asked for.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

import msgspec
import sqlalchemy as sa

from gateway.store.database import Database
from gateway.store.tables import measurements, runs, streams
from tests.support.integration.serving import serving
from tests.support.store import many_streams
from tools.bench.many_streams import ENVIRON, report

BATCH = 10_000
N_RUNS = 500
SHARE_OF_ONE = 0.3
DAYS = 30
PAGES = ("/console", "/console/alarms", "/console/alarms/{stream}", "/console/settings")


async def fill(database: Database, n_measurements: int) -> str:
    """Returns the id of the stream that has most of them."""
    await many_streams.fill(database)
    async with database.begin() as connection:
        rows = (await connection.execute(sa.select(streams).limit(500))).mappings().all()
        for first in range(0, n_measurements, BATCH):
            of_one = first < SHARE_OF_ONE * n_measurements
            at = time.time() - DAYS * 86400 * (1 - first / n_measurements)
            await connection.execute(
                sa.insert(measurements),
                [_measurement(dict(rows[0] if of_one else rows[n % len(rows)]), at + n, n) for n in range(BATCH)],
            )
        await connection.execute(sa.insert(runs), [run_row(number) for number in range(N_RUNS)])
    return str(rows[0]["key"])


def _measurement(stream: dict[str, object], at: float, number: int) -> dict[str, object]:
    same = {name: stream[name] for name in ("auditor", "metric", "axis", "group_name", "model")}
    mine = {"stream": stream["key"], "value": 2 * random.random(), "status": "ok", "created_at": at}
    weights = {"inclusion_probability": 0.1, "rate_factor": 1.0, "weight": 10.0}
    return same | mine | weights | {"reference_name": f"{at}-{number}", "auditor_version": "1", "judge": ""}


def run_row(number: int) -> dict[str, object]:
    about = {"suite": "example", "model": f"model-{number % 50:02}", "mode": "sample", "protocol": "corrected"}
    times = {"created_at": time.time() - number, "started_at": time.time(), "finished_at": time.time() - number}
    options = msgspec.json.encode(about | {"seed": number}).decode()
    ended = {"status": "done", "progress_done": 1, "progress_total": 1, "result": "{}", "report": "x" * 100_000}
    return about | times | ended | {"id": f"run{number}", "options": options}


async def main(rounds: int, n_measurements: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/biasgate.db"
        database = await Database.open(url)
        stream = await fill(database, n_measurements)
        await database.close()
        config = Path(directory) / "biasgate.toml"
        config.write_text(
            f'[store]\nurl = "{url}"\n[[upstreams]]\nname = "up"\nbase_url = "http://127.0.0.1:9"\n'
            "[server]\nauditor_metrics_port = 0\n"
        )
        async with serving("gateway", "--config", str(config), "--workers", "1", environ=ENVIRON) as running:
            for path in PAGES:
                await report(running, path.format(stream=stream), rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--measurements", type=int, default=1_000_000)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rounds, arguments.measurements))
