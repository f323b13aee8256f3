"""Suites that start by themselves: a real auditor takes what is due, and notices what an upstream serves."""

import json
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.auditor import scheduling
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.jobs import open_queue
from gateway.store import catalogue, runs, schedules, served
from gateway.store.database import Database
from tests.support.gateway.control_plane import STEREOSET
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.stores("sqlite")

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "cron": "0 3 * * *",
    "suites": ["stereoset"],
    "model": "simulated",
    "options": {"data": "embedded", "limit": 8, "thinking": "off", "extra_body": {"min_p": 0.1}},
}


def scheduling_config(url: str, upstream: str, **changes: Any) -> Config:
    return config_for(url, upstream, audits={"schedules": [NIGHTLY | changes]})


async def make_due(database: Database) -> None:
    async with database.begin() as connection:
        await connection.execute(sa.text("UPDATE schedules SET next_due_at = 1000.0"))


async def done(database: Database, count: int) -> bool:
    return [run.status for run in await runs.list_runs(database)] == ["done"] * count


@pytest.mark.stores("sqlite", "postgresql")
async def test_two_auditors_run_a_configured_schedule_once(database: Database) -> None:
    """A schedule of the file, overdue by decades, is run once to its end by two auditors on one store."""
    async with running_simulator() as upstream:
        config = scheduling_config(database.url, upstream)
        async with auditing(config), auditing(config):
            [adopted] = await schedules.list_schedules(database)
            await make_due(database)
            await until(partial(done, database, 1), within_seconds=50)
        after = await schedules.get(database, adopted.id)
        [run] = await runs.list_runs(database)
        assert after.last_run_ids == [run.id]
        assert (run.options["thinking"], run.options["extra_body"]) == ("off", {"min_p": 0.1})
        finished = await runs.get(database, run.id)
        assert finished is not None
        result = json.loads(finished.result or "")
        assert (result["thinking"], result["extra_body"]) == ("off", {"min_p": 0.1})
        assert after.next_due_at > after.created_at
        async with auditing(config):  # a restart finds nothing due
            assert (await schedules.get(database, adopted.id)).next_due_at == after.next_due_at
            assert len(await runs.list_runs(database)) == 1


async def test_what_cannot_run_is_said_on_the_schedule(database: Database) -> None:
    """A due time whose data are missing starts nothing, says why, and waits for the next."""
    queue = open_queue(database)
    await catalogue.publish(database, [STEREOSET])
    [planned] = scheduling.configured(
        scheduling_config(database.url, "http://127.0.0.1:9", options={"data": "canonical"})
    )
    await schedules.adopt(database, [planned])
    await make_due(database)
    await scheduling.start_due(database, queue)
    [after] = await schedules.list_schedules(database)
    assert "biasgate datasets fetch stereoset" in str(after.last_error)
    assert after.next_due_at > after.created_at
    assert await runs.list_runs(database) == []
    await queue.close()


async def test_a_changed_model_runs_the_suites_asked_for(database: Database) -> None:
    """What an upstream serves is compared with what was seen before; a change queues its suites and a job, once."""
    queue = open_queue(database)
    await catalogue.publish(database, [STEREOSET | {"data": "present"}])
    async with running_simulator() as upstream:
        config = config_for(database.url, upstream, audits={"on_model_change": ["stereoset"], "thinking": "off"})
        await scheduling.notice_models(database, queue, config)
        assert await runs.list_runs(database) == []
        await served.observe(database, "u", {"simulated": "before"}, asked_at=9e9, runs_of=lambda _: [])
        async with database.begin() as connection:
            await connection.execute(sa.text("UPDATE served_models SET changed_at = 1.0"))
        for _ in range(2):
            await scheduling.notice_models(database, queue, config)
    [run] = await runs.list_runs(database)
    assert (run.suite, run.model, run.options["thinking"]) == ("stereoset", "simulated", "off")
    assert await queue.pending("run_suite") == [{"run_id": run.id}]
    await queue.close()


@pytest.mark.parametrize(
    ("audits", "message"),
    [
        ({"schedules": [NIGHTLY | {"suites": ["stereose"]}]}, 'unknown suite "stereose"'),
        ({"on_model_change": ["bqq"]}, 'unknown suite "bqq"'),
        ({"schedules": [NIGHTLY | {"options": {"limit": 0}}]}, 'audits.schedules "nightly": options: .*limit'),
        ({"schedules": [NIGHTLY | {"options": {"lmit": 5}}]}, "unknown field `lmit`"),
    ],
)
def test_a_schedule_that_cannot_work_stops_the_start(audits: dict[str, Any], message: str) -> None:
    """A misspelt suite or option is one line when the auditor starts, not a failed run at night."""
    with pytest.raises(ConfigError, match=message):
        scheduling.configured(config_for("sqlite:///x.db", "http://127.0.0.1:9", audits=audits))
