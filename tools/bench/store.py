"""Times of every page and list over a PostgreSQL full of measurements.

`python -m tools.bench.store [--measurements N]`, 200,000 of them where nothing is said.

5,000 live streams, of which one has three in ten of the measurements, evenly over 90 days; exchanges of the last 30
days with eight measurements each, 500 runs. The database is made and dropped again, but for one named by --url, which
stays, and is only measured when it is full already. The figures are in docs/evidence/console.md.
"""

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import psycopg
import sqlalchemy as sa

from gateway.store import partitions
from gateway.store.database import Database
from gateway.store.tables import exchanges, measurements, runs, streams
from tests.support.integration.serving import Command, serving
from tests.support.postgres import Scratch
from tests.support.store import many_streams
from tools.bench.console import N_RUNS, run_row
from tools.bench.many_streams import processor_seconds

KEY = "bench-key-of-an-administrator"
ENVIRON = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "BIASGATE_ADMIN_KEY": KEY}
DAYS, DAYS_OF_EXCHANGES = 90, 30
A_DAY = 86_400
PER_EXCHANGE = 8
BATCH = 500_000

ARGUMENTS = """
WITH given AS (SELECT CAST(:start AS float8) AS start, CAST(:step AS float8) AS step, CAST(:first AS bigint) AS first,
    CAST(:last AS bigint) AS last)
"""
MAKE_EXCHANGES = """
INSERT INTO exchanges (id, request_id, received_at, endpoint, model, served_model, upstream, stream, status_code,
    content_type, stratum, inclusion_probability, key_name, tag, request_body, response_body, state, settled_at)
{given}
SELECT md5('exchange' || n), md5('request' || n), start + n * step, '/v1/chat/completions', model, model, 'up', false,
    200, 'application/json', 'other', 0.1, 'key-' || n % 10, 'tag-' || n % 100, CAST(:asked AS bytea),
    CAST(:answered AS bytea), 'audited', start + n * step + 60
FROM given, generate_series(first, last) AS n,
    LATERAL (SELECT 'model-' || lpad((n % 50)::text, 2, '0') AS model) AS named
"""
MAKE_AUDITS = """
INSERT INTO exchange_audits (exchange_id, auditor, outcome, seconds, finished_at)
{given}
SELECT md5('exchange' || n), auditor, 'audited', 0.5, start + n * step + 30
FROM given, generate_series(first, last) AS n, unnest(ARRAY['embedding', 'judge']) AS auditor
"""
MAKE_MEASUREMENTS = """
INSERT INTO measurements (exchange_id, auditor, auditor_version, metric, axis, group_name, model, value, status, reason,
    detail, inclusion_probability, rate_factor, weight, created_at, stream)
{given}
SELECT CASE WHEN linked >= 0 THEN md5('exchange' || (linked / CAST(:per_exchange AS bigint))) END, s.auditor, 'v1',
    s.metric, s.axis, s.group_name, s.model, CASE WHEN n % 20 > 0 THEN (n * 7919 % 1000) / 1000.0 END,
    CASE WHEN n % 20 > 0 THEN 'ok' ELSE 'error' END, CASE WHEN n % 20 = 0 THEN 'no answer' END,
    CASE WHEN linked >= 0 THEN '{{"words": "' || repeat('x', 100) || '"}}' END, 0.1, 1, 1, start + n * step + 30, s.key
FROM given, generate_series(first, last) AS n,
    LATERAL (SELECT n - CAST(:first_linked AS bigint) AS linked) AS from_then,
    LATERAL (
        SELECT CASE WHEN n % 10 < 3 THEN 0 ELSE (n * 31 + n / 10) % CAST(:n_streams AS bigint) END AS number
    ) AS one
JOIN bench_streams AS s USING (number)
"""


async def fill(database: Database, n: int) -> None:
    """Batch by batch, each by the database itself."""
    n_streams, now = await many_streams.fill(database), time.time()
    start, step = now - DAYS * A_DAY, DAYS * A_DAY / n
    n_exchanges = int(n * DAYS_OF_EXCHANGES / DAYS / PER_EXCHANGE)
    about = {
        "start": start,
        "step": step,
        "n_streams": n_streams,
        "per_exchange": PER_EXCHANGE,
        "first_linked": n - n_exchanges * PER_EXCHANGE,
    }
    text = b'{"messages":[{"role":"user","content":"' + b"Who leads better, she or he? " * 12 + b'"}]}'
    answer = b'{"choices":[{"message":{"role":"assistant","content":"' + b"Either does. " * 40 + b'"}}]}'
    of_exchanges = {
        "asked": text,
        "answered": answer,
        "start": now - DAYS_OF_EXCHANGES * A_DAY,
        "step": step * PER_EXCHANGE,
    }
    await partitions.prepare(database, since=start)
    async with database.begin() as connection:
        await connection.execute(
            sa.text("CREATE TABLE bench_streams AS SELECT row_number() OVER () - 1 AS number, * FROM streams")
        )
        await connection.execute(sa.text("ALTER TABLE bench_streams ADD PRIMARY KEY (number)"))
        await connection.execute(sa.insert(runs), [run_row(number) for number in range(N_RUNS)])
        for statement in (MAKE_EXCHANGES.format(given=ARGUMENTS), MAKE_AUDITS.format(given=ARGUMENTS)):
            wanted = {name: value for name, value in of_exchanges.items() if f":{name} " in statement}
            await connection.execute(sa.text(statement), {**wanted, "first": 0, "last": n_exchanges - 1})
    for first in range(0, n, BATCH):
        portion = about | {"first": first, "last": min(n, first + BATCH) - 1}
        async with database.begin(waits_for_disk=False) as connection:
            await connection.execute(sa.text(MAKE_MEASUREMENTS.format(given=ARGUMENTS)), portion)
        print(f"  {portion['last'] + 1:,} measurements", flush=True)
    async with database.begin() as connection:
        await connection.execute(sa.text("DROP TABLE bench_streams"))
        for table in ("measurements", "exchanges", "exchange_audits", "streams"):  # as autovacuum does
            await connection.execute(sa.text(f"ANALYZE {table}"))


async def paths(database: Database) -> list[str]:
    """What is asked for: pages of the console, then lists of the API."""
    async with database.read() as connection:
        counts = sa.select(streams.c.key, streams.c.model).order_by(streams.c.key)
        other, model = (await connection.execute(counts.limit(1))).one()
        busiest = sa.select(measurements.c.stream).where(measurements.c.created_at > time.time() - 3600)
        busiest = busiest.group_by(measurements.c.stream).order_by(sa.func.count().desc()).limit(1)
        busy = (await connection.execute(busiest)).scalar_one()
        middle = sa.select(exchanges.c.id, exchanges.c.received_at, exchanges.c.request_id)
        middle = middle.where(exchanges.c.received_at < time.time() - 15 * A_DAY)
        row = (await connection.execute(middle.order_by(exchanges.c.received_at.desc()).limit(1))).one()
    scored = "auditor=embedding&axis=gender&group=group_07"
    return [
        "/console",
        "/console/alarms",
        f"/console/alarms/{busy}",
        f"/console/alarms/{other}",
        "/console/audits",
        "/console/exchanges?auditor=embedding",
        f"/console/exchanges?request_id={row.request_id}",
        "/console/exchanges?tag=tag-7",
        "/console/exchanges?state=failed",
        "/console/exchanges?auditor=judge",
        "/console/exchanges?tag=nobodys",
        f"/console/exchanges?{scored}&min_score=0.9",
        f"/console/exchanges?{scored}&min_score=5",
        f"/console/exchanges/{row.id}",
        "/console/fingerprints",
        "/console/fingerprints/raters",
        "/console/settings",
        "/live/exchanges?limit=200",
        f"/live/exchanges?before={row.received_at!r},{row.id},0",
        f"/live/exchanges?{scored}",
        f"/live/exchanges?model={model}",
        "/live/exchanges/access",
        "/live/exchanges/redactions",
        "/live/estimates",
        "/live/estimates?limit=100",
        "/live/estimates?limit=100&offset=4900",
        f"/live/estimates?model={model}&axis=race",
        "/live/estimates?window=500",
        "/live/estimates?window=500&limit=100",
        "/live/estimates?window=24h",
        "/live/estimates?window=24h&limit=100",
        f"/live/estimates?window=30d&model={model}&axis=race",
        "/live/detectors",
        "/live/detectors?limit=100",
        "/live/alarms",
        "/live/alarms/acknowledgements",
        f"/live/streams/{busy}/history",
        f"/live/streams/{busy}/history?window=30d",
        f"/live/streams/{other}/history",
        f"/live/streams/{busy}/replicas",
        "/live/ledger",
        "/live/mitigations",
        "/live/circuits",
        "/annotations",
        "/audits",
        "/canaries",
        "/schedules",
        "/judges/calibrations",
    ]


class Backends:
    """PostgreSQL's processes on this machine that serve the database."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[int]]) -> None:
        self._connection = connection

    async def seconds(self) -> float:
        """Processor time of those that are there now; one that ends takes its own with it."""
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        rows = await (await self._connection.execute(asked)).fetchall()
        return sum(processor_seconds(pid) for (pid,) in rows)


async def measure(url: str, rounds: int) -> None:
    database = await Database.open(url)
    asked = await paths(database)
    await database.close()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "biasgate.toml"
        config.write_text(
            f'[store]\nurl = "{url}"\n[[upstreams]]\nname = "up"\nbase_url = "http://127.0.0.1:9"\n'
            '[server]\nauditor_metrics_port = 0\nadmin_key_env = "BIASGATE_ADMIN_KEY"\n'
        )
        headers = {"authorization": f"Bearer {KEY}"}
        async with (
            serving("gateway", "--config", str(config), "--workers", "1", environ=ENVIRON) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=120, headers=headers) as http,
            await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        ):
            print(f"{'ms':100s}   least  median     p95   first   processor", flush=True)
            for path in asked:
                await report(running, http, Backends(connection), path, rounds)


async def report(running: Command, http: httpx.AsyncClient, backends: Backends, path: str, rounds: int) -> None:
    took, spent = [], []
    for _ in range(rounds + 1):  # the first is told apart
        started, before = time.perf_counter(), processor_seconds(running.process.pid) + await backends.seconds()
        answer = await http.get(path, follow_redirects=True)
        took.append(1000 * (time.perf_counter() - started))
        after = processor_seconds(running.process.pid) + await backends.seconds()
        spent.append(1000 * (after - before))
    again = sorted(took[1:])
    p95 = again[math.ceil(0.95 * len(again)) - 1]
    figures = (again[0], statistics.median(again), p95, took[0], statistics.median(spent[1:]))
    state = "" if answer.status_code == 200 else f"  status {answer.status_code}"
    print(f"{path:100s}" + "".join(f"{figure:8.1f}" for figure in figures) + state, flush=True)


async def main(url: str, n: int, rounds: int) -> None:
    database = await Database.open(url)
    try:
        async with database.read() as connection:
            is_full = (await connection.execute(sa.select(measurements.c.id).limit(1))).first() is not None
        if not is_full:
            started = time.perf_counter()
            await fill(database, n)
            print(f"{n:,} measurements made in {time.perf_counter() - started:.0f} s", flush=True)
    finally:
        await database.close()
    await measure(url, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--url", help="of a database that stays")
    arguments = parser.parse_args()
    scratch = Scratch()
    try:
        given = arguments.url or scratch.emptied(keep_tables=False)
        asyncio.run(main(given, arguments.measurements, arguments.rounds))
    finally:
        scratch.drop()
