"""What it takes to read the history of a stream: `python -m tools.bench.histories [URL]`. A minute or two.

A store of 1,000,000 measurements of 30 days, of which one stream has three in ten and 200 others the rest. Without a
URL it is an SQLite file that is gone afterwards; a PostgreSQL database must be empty.
"""

import asyncio
import random
import sys
import tempfile
import time
from typing import Any

import sqlalchemy as sa

from gateway.store import histories
from gateway.store.database import Database
from gateway.store.tables import measurements
from gateway.store.windows import Window

MEASUREMENTS, AT_ONCE = 1_000_000, 10_000
DAYS = 30
ROUNDS = 5
BUSY, OTHERS = "b" * 32, [f"{number:032d}" for number in range(200)]


def rows(first: int, now: float, rng: random.Random) -> list[dict[str, Any]]:
    return [_row(now - DAYS * 86_400 * (1 - number / MEASUREMENTS), rng) for number in range(first, first + AT_ONCE)]


def _row(at: float, rng: random.Random) -> dict[str, Any]:
    is_missing = rng.random() < 0.05
    return {
        "auditor": "judge",
        "auditor_version": "1",
        "metric": "favoritism",
        "axis": "gender",
        "group_name": "women",
        "model": "m",
        "value": None if is_missing else rng.choice([-1.0, 0.0, 1.0, 2.0]),
        "status": "error" if is_missing else "ok",
        "detail": '{"words":"' + "x" * 300 + '"}',
        "inclusion_probability": 0.5,
        "created_at": at,
        "stream": BUSY if rng.random() < 0.3 else rng.choice(OTHERS),
    }


async def measured(database: Database) -> None:
    for name, stream in (("300,000 measurements", BUSY), ("3,500 measurements", OTHERS[0])):
        for words, window in (("all", None), ("the last day", Window(seconds=86_400.0))):
            took = []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                found = await histories.read(database, stream, window)
                took.append(time.perf_counter() - started)
            assert found is not None
            n = sum(period.values.n for period in found.periods.values())
            print(f"{name}, {words}: {1000 * min(took):.0f} to {1000 * max(took):.0f} ms", end="")
            print(f" for {len(found.periods)} periods of {n:,} values{', cut' if found.is_cut else ''}")


async def main(url: str) -> None:
    database, rng, now = await Database.open(url), random.Random(1), time.time()
    try:
        for first in range(0, MEASUREMENTS, AT_ONCE):
            async with database.begin() as connection:
                await connection.execute(sa.insert(measurements), rows(first, now, rng))
        async with database.begin() as connection:
            await connection.execute(sa.text("ANALYZE measurements"))  # as PostgreSQL does by itself within a minute
        await measured(database)
    finally:
        await database.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{directory}/store.db"))
