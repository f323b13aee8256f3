"""Record N audits with planned scores, a line each, until a test kills the process: python -m ...recorder URL N."""

import asyncio
import sys

from auditors.metrics.intervals import Interval
from auditors.streams.drift import DriftSettings
from auditors.types import Exchange, Measurement
from gateway.store import exchanges
from gateway.store.database import Database
from tests.support.store.made import exchange, measurement, record

SETTINGS = DriftSettings(
    average_run_length=50.0,
    reference_window=10,
    reference_run="planned",
    references={f"favoritism/gender/{group}": Interval(0.3, 0.5) for group in ("man", "woman")},
)
PROBABILITY = 0.5


def planned(number: int) -> tuple[Exchange, list[Measurement]]:
    """Exchange number so-and-so: men and women score alike at first, and women higher from the sixtieth on."""
    one = exchange(id=f"exchange-{number:04}", request_id=f"request-{number}", received_at=float(number))
    group = "woman" if number % 3 == 0 else "man"
    value = 2.0 if group == "woman" and number > 60 else float(number % 4 == 0)
    return one, [measurement(None if number % 10 == 9 else value, group=group)]


async def record_planned(url: str, count: int) -> None:
    """Records `count` planned audits; those that are recorded already change nothing."""
    database = await Database.open(url)
    for number in range(count):
        one, found = planned(number)
        if await exchanges.get(database, one.id) is None:
            await exchanges.insert_batch(database, [one], {})
        await record(database, one, found, probability=PROBABILITY, settings=SETTINGS)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    await database.close()


if __name__ == "__main__":
    asyncio.run(record_planned(sys.argv[1], int(sys.argv[2])))
