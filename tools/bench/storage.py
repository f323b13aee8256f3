"""Bytes that an exchange and a measurement take: on SQLite, on PostgreSQL, and of a measurement exported.

`python -m tools.bench.storage [--exchanges N] [--tokens N]`: judged exchanges, redacted and plain text, with four
measurements each, as an auditor records them. Tokens are of the request and of the answer.
"""

import argparse
import asyncio
import random
import tempfile
import uuid
from pathlib import Path

import sqlalchemy as sa

from auditors.types import Measurement
from gateway.features.export.passes import export_new_rows
from gateway.store import exchanges
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams import recording
from gateway.streams.recording import Settling
from tests.support.postgres import Scratch
from tests.support.store.made import SETTINGS, exchange, measurement

BYTES_A_TOKEN = 5.7
"""As in docs/evidence/streams.md."""
BATCH = 100
GROUPS = ("women", "men", "black", "white")
OF_TABLE = (  # a table, or all its partitions
    "SELECT coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(it) WHERE isleaf),"
    " pg_total_relation_size(it)) FROM (SELECT cast(:name AS regclass) AS it) AS one"
)
OF_MEASUREMENTS, OF_EXCHANGES = ("measurements",), ("exchanges", "exchange_audits")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchanges", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=600)
    arguments = parser.parse_args()
    scratch = Scratch()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for url in (f"sqlite:///{folder}/store.db", scratch.emptied(keep_tables=False)):
                print(asyncio.run(measured(url, arguments.exchanges, arguments.tokens, Path(folder))))
    finally:
        scratch.drop()


async def measured(url: str, n: int, tokens: int, folder: Path) -> str:
    """A line for one store."""
    database = await Database.open(url)
    draw = random.Random(0)
    for _ in range(0, n, BATCH):
        batch = [
            exchange(request_body=_text(draw, tokens // 2), response_body=_text(draw, tokens // 2))
            for _ in range(BATCH)
        ]
        await exchanges.insert_batch(database, batch, {})
        recordings = [
            Recording(exchange=one, auditor="judge", result=_found(draw), seconds=0.5, probability=0.05)
            for one in batch
        ]
        settlings = [Settling(exchange_id=one.id) for one in batch]
        await recording.record_all(database, recordings, settlings, settings=SETTINGS)
    of_exchange, of_measurement = await _sizes(database, n)
    address = folder / database.dialect
    await export_new_rows(database, str(address), uuid.uuid4().hex)
    exported = sum(path.stat().st_size for path in address.rglob("*.parquet")) / (n * len(GROUPS))
    dialect = database.dialect
    await database.close()
    return (
        f"{dialect}: {tokens} tokens, {tokens * BYTES_A_TOKEN:.0f} bytes of text: an exchange {of_exchange:.0f} bytes, "
        f"a measurement {of_measurement:.0f}, exported {exported:.1f}"
    )


def _text(draw: random.Random, tokens: int) -> bytes:
    words = ("".join(draw.choices("etaoinshrdlu", k=draw.randint(3, 7))) for _ in range(tokens))
    return " ".join(words).encode()[: int(tokens * BYTES_A_TOKEN)]


def _found(draw: random.Random) -> list[Measurement]:
    return [measurement(draw.choice([-1.0, 0.0, 1.0, 2.0]), group=group) for group in GROUPS]


async def _sizes(database: Database, n: int) -> tuple[float, float]:
    """Of an exchange with its audit, and of a measurement; indexes included."""
    async with database.read() as connection:
        if database.dialect == "postgresql":
            found = {
                name: float((await connection.execute(sa.text(OF_TABLE), {"name": name})).scalar_one())
                for name in (*OF_EXCHANGES, *OF_MEASUREMENTS)
            }
        else:
            query = "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) GROUP BY tbl_name"
            found = {row[0]: row[1] for row in await connection.execute(sa.text(query))}
    return sum(found[name] for name in OF_EXCHANGES) / n, found["measurements"] / (n * len(GROUPS))


if __name__ == "__main__":
    main()
