"""What the auditor exports of canaries, read from a store."""

import math
import time
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from gateway.features.canary import store as canaries
from gateway.features.canary.auditing import EXPORTED as CANARIES
from gateway.features.canary.auditing import EXPORTED_SECONDS as CANARY_SECONDS
from gateway.features.canary.auditing import read_families
from gateway.features.canary.comparison import Findings
from gateway.features.canary.request import CanaryRequest
from gateway.store import tables
from gateway.store.database import Database

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Its statements are the same on both databases."""
FINDINGS = Findings(
    verdict="rollback",
    reasons=["worse"],
    n_pairs=40,
    n_compared=36,
    failed={"canary: timeout": 2, "canary: unavailable": 1, "stable: timeout": 1, "deleted meanwhile": 5},
    e_value=150.0,
    gaps=[],
    beside=[],
)


async def started(database: Database, canary: str, *, verdict: Any = None, ago: float = 0.0) -> None:
    """A canary of "m" that an auditor has taken, with a verdict so long ago where one is given."""
    sides = {"stable": {"model": "m"}, "canary": {"model": canary}}
    one = await canaries.create(database, msgspec.convert(sides, CanaryRequest), max_queued=100)
    if verdict is not None:
        assert await canaries.claim(database, one) is not None
        assert await canaries.finish(database, one, verdict, ["why"], FINDINGS)
        change = sa.update(tables.canaries).where(tables.canaries.c.id == one).values(finished_at=time.time() - ago)
        async with database.begin() as connection:
            await connection.execute(change)


async def exported(database: Database) -> dict[tuple[str, ...], float]:
    """Values of the canaries' families by name without prefix and labels in the order of their names."""
    return {
        (sample.name.removeprefix("biasgate_canary_"), *(value for _, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in await read_families(database)
        for sample in family.samples
        if sample.name.startswith("biasgate_canary_")
    }


async def test_a_verdict_is_exported_for_a_day(database: Database) -> None:
    """Pairs, failures by side, evidence, threshold and the one verdict of two models; nothing of what is long over."""
    await started(database, "worse", verdict="rollback")
    await started(database, "old", verdict="hold", ago=CANARY_SECONDS + 60)
    found = await exported(database)
    assert {name[1] for name in found} == {"worse"}
    assert found["pairs", "worse", "m"] == 40
    assert (found["failed_pairs", "worse", "canary", "m"], found["failed_pairs", "worse", "stable", "m"]) == (3, 1)
    assert math.isclose(found["log_evidence", "worse", "m"], math.log(150.0))
    assert math.isclose(found["log_threshold", "worse", "m"], math.log(100.0))
    verdicts = {name[3]: value for name, value in found.items() if name[0] == "verdict"}
    assert verdicts == {"undecided": 0, "promote": 0, "hold": 0, "rollback": 1}


async def test_there_are_never_many_series(database: Database) -> None:
    """However many models are named, ten have series."""
    for number in range(CANARIES + 3):
        await started(database, f"n{number}")
    assert len({name[1] for name in await exported(database)}) == CANARIES
