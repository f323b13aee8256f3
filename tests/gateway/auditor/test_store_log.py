"""The log of a suite run in the store: what an auditor that takes the run over still knows of it."""

import msgspec
import pytest
import sqlalchemy as sa

from benchmarks.run.plan import Plan
from benchmarks.run.result import Result, encode
from benchmarks.run.runner import run_plan
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.store_log import StoreLog
from gateway.store.tables import runs as table
from tests.support.benchmarks.scripted import ScriptedCompleter, pick, plan

pytestmark = pytest.mark.stores("sqlite")


async def asked(database: Database, ready: Plan) -> Result:
    """The result of an auditor that claims the run and asks what it lacks."""
    run = await runs.claim(database, "r")
    assert run is not None
    log = StoreLog(database, run)
    return await run_plan(ready, completer=ScriptedCompleter(ready, pick("stereotype")), log=log)


async def test_run_taken_over_tells_the_same_as_one_in_one_piece(database: Database) -> None:
    """An auditor is killed once it has every reply: the result of the next one differs in nothing but times."""
    ready = plan()
    await runs.create(database, "r", {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected"})
    whole = await asked(database, ready)
    earlier = {"started_at": table.c.started_at - 64.0, "heartbeat_at": table.c.heartbeat_at - runs.STALE_SECONDS - 1.0}
    await database.change_rows(sa.update(table).values(earlier))

    taken_over = await asked(database, ready)

    assert 64.0 <= taken_over.provenance.seconds < 64.0 + 60.0
    assert taken_over.provenance.thinking is not None
    assert encode(_timeless(taken_over)) == encode(_timeless(whole))
    assert taken_over.provenance.started != whole.provenance.started


def _timeless(result: Result) -> Result:
    provenance = msgspec.structs.replace(result.provenance, started=None, finished=None, seconds=0.0)
    return msgspec.structs.replace(result, provenance=provenance)
