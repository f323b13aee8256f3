"""Replies of suite runs are found by item and by place, however many there are."""

import pytest
import sqlalchemy as sa

from gateway.store import run_responses, runs
from gateway.store.database import Database
from tests.support.store.made import create_run


async def test_replies_to_some_items(database: Database) -> None:
    """Those of every sample, or those in given places; an item without a reply has none."""
    await create_run(database, "r", {"suite": "bbq", "model": "m", "mode": "sample", "protocol": "corrected"})
    run = await runs.claim(database, "r")
    assert run is not None
    replies = [(item, sample, "ok", f"{item}{sample}") for item in ("a", "b", 'c"') for sample in range(3)]
    await run_responses.append(database, run, replies)
    assert sorted(await run_responses.of_items(database, "r", ["a", 'c"', "none"])) == sorted(
        f"{item}{sample}" for item in ("a", 'c"') for sample in range(3)
    )
    assert await run_responses.of_items(database, "other", ["a"]) == []
    assert sorted(await run_responses.at(database, "r", [("a", 2), ("b", 0), ("none", 1)])) == ["a2", "b0"]


@pytest.mark.stores("postgresql")
async def test_replies_are_found_by_their_items_in_a_new_table(database: Database) -> None:
    """A plan that is made while nothing is known of the table, and kept, must not read the whole run for each range."""
    given = {"run_id": "r", "items": '["a", "b"]', "first": 0, "last": 5}
    async with database.read() as connection:
        await connection.execute(sa.text("SET LOCAL plan_cache_mode = force_generic_plan"))
        plan = (await connection.execute(sa.text(f"EXPLAIN {run_responses._TO_ITEMS.text}"), given)).scalars().all()
    [condition] = [line for line in plan if "Index Cond" in line]
    assert "run_id" in condition
    assert "item_id" in condition
    assert not any("Filter" in line for line in plan)
