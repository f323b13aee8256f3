"""What a real auditor records of sampled exchanges: each once, whatever its model and its own faults do to them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.judge import JudgeAuditor
from auditors.refusal import RefusalAuditor
from auditors.streams.estimates import bounds_of
from auditors.types import AuditFailure, Exchange, Measurement
from gateway.auditor import maintenance
from gateway.jobs import open_queue
from gateway.sampling.decision import is_sampled
from gateway.store import ledger, tables
from gateway.store.database import Database
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.integration.auditing import PROMPT, auditing, config_for, sample, settled, until
from tests.support.simulated import running_simulator
from tests.support.store.made import list_streams
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")


async def test_orphaned_exchanges_are_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges that no job speaks of are audited all the same."""
    monkeypatch.setattr(maintenance, "SWEEP_AFTER_SECONDS", 0.0)
    async with running_simulator() as upstream:
        await sample(database, 20, announce=False)
        async with auditing(config_for(database.url, upstream)):
            await settled(database, audited=20)
    assert len(await scores_of(database, limit=1000)) == 40


async def test_sweep_leaves_alone_what_a_job_covers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waits in the queue is not queued again, however often the sweep comes by."""
    monkeypatch.setattr(maintenance, "SWEEP_AFTER_SECONDS", 0.0)
    await sample(database, 3)
    await sample(database, 20, announce=False)
    queue = open_queue(database)
    for _ in range(3):
        await maintenance.sweep(database, queue)
    jobs = [job["ids"] for job in await queue.pending("audit_exchanges")]
    await queue.close()
    assert len(jobs) == 3
    assert sorted(map(len, jobs)) == [3, 4, 16]


async def test_auditor_rate_multiplies_the_inclusion_probability(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor with a rate takes that share of the exchanges, by the secret; the rest is counted as sampled out."""
    monkeypatch.setenv("SAMPLING_SECRET", "0123456789abcdef")
    sections: dict[str, Any] = {
        "auditors": {"judge": {"model": "simulated-judge", "rate": 0.5}, "embedding": {"enabled": False}},
        "sampling": {"secret_env": "SAMPLING_SECRET"},
    }
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream, **sections)):
        batch = await sample(database, 20)

        async def all_settled() -> bool:
            return ("other", "queued") not in await ledger.counts(database)

        await until(all_settled)
    taken = {one.id for one in batch if is_sampled(b"0123456789abcdef", one.id, 0.5, purpose="judge")}
    scored = await scores_of(database, limit=1000)
    assert 0 < len(taken) < 20
    assert {one.exchange.id for one in scored} == taken
    assert {one.inclusion_probability for one in scored} == {0.25}
    assert await ledger.counts(database) == {
        ("other", "audited"): len(taken),
        ("other", "sampled_out"): 20 - len(taken),
    }


Audit = Callable[[Any, Exchange], Awaitable[list[Measurement] | AuditFailure]]


def repeated(asked: Asked) -> str:
    """The audited prompt in a judge's question."""
    return str(asked.json["messages"][-1]["content"]).split("]\n", 1)[1].split("\n")[0]


OTHER = PROMPT.replace(b"leaders", b"dancers")
N_OTHERS = 4


def refuses(asked: Asked) -> Reply:
    """Says which input it did not take."""
    return Reply(msgspec.json.encode({"error": {"message": f"bad input: {repeated(asked)}"}}), status=400)


def talks(asked: Asked) -> Reply:
    """Repeats the prompt where a verdict was asked for."""
    return chat(f'{{"refused": "{repeated(asked)}", "findings": []}}')


@pytest.mark.parametrize("keep_text", [True, False])
@pytest.mark.parametrize(("script", "kind"), [(refuses, "rejected"), (talks, "malformed")])
async def test_what_a_judge_repeats_is_text_too(
    database: Database, script: Callable[[Asked], Reply], kind: str, keep_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error may hold the prompt: the message is kept with the text, or not at all. An odd verdict's does not."""
    monkeypatch.setattr(maintenance, "SWEEP_AFTER_SECONDS", 0.0)
    was_asked = asyncio.Event()

    def judge(asked: Asked) -> Reply:
        if asked.path != "/v1/chat/completions" or "dancers" in repeated(asked):
            return chat('{"refused": false, "findings": []}')
        was_asked.set()
        return script(asked)

    async with scripted_server(judge) as server:
        store = {"url": database.url, "keep_text": keep_text}
        async with auditing(config_for(database.url, server.base_url, store=store)):
            await sample(database, 1)
            await asyncio.wait_for(was_asked.wait(), timeout=60)
            await sample(database, N_OTHERS, request_body=OTHER)  # which show that the judge is well
            await settled(database, failed=1, audited=N_OTHERS)
    async with database.read() as connection:
        audits = (await connection.execute(sa.select(tables.exchange_audits))).all()
        found = (await connection.execute(sa.select(tables.measurements))).all()
    failed = [one for one in audits if one.outcome == "failed"]
    missing = [one for one in found if one.value is None]
    assert [one.failure_kind for one in failed] == [kind]
    assert {one.group_name for one in missing} == {"man", "woman"}
    written = repr([*failed, *missing])
    assert ("better leaders" in written) is (keep_text and kind == "rejected")
    assert ("not kept" in written) is not keep_text


def raising(_: Audit) -> Audit:
    async def audit(self: Any, exchange: Exchange) -> list[Measurement] | AuditFailure:
        raise ZeroDivisionError("a bug")

    return audit


def measuring_nan(sound: Audit) -> Audit:
    async def audit(self: Any, exchange: Exchange) -> list[Measurement] | AuditFailure:
        found = await sound(self, exchange)
        assert isinstance(found, list)
        return [msgspec.structs.replace(one, value=float("nan"), status="ok") for one in found]

    return audit


WITH_REFUSAL = {"judge": {"model": "simulated-judge"}, "refusal": {"enabled": True}, "embedding": {"enabled": False}}
FAULTLESS, FAULTY = 40, 3


async def failures(database: Database) -> Counter[tuple[str, str]]:
    """Auditor and kind of each failed audit."""
    columns = tables.exchange_audits.c
    query = sa.select(columns.auditor, columns.failure_kind).where(columns.failure_kind.is_not(None))
    async with database.read() as connection:
        return Counter((row.auditor, row.failure_kind) for row in await connection.execute(query))


@pytest.mark.parametrize("broken", [raising, measuring_nan])
async def test_what_a_broken_auditor_should_have_measured_is_missing(
    broken: Callable[[Audit], Audit], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of an auditor, in its audit or in its numbers, scores nothing: sums stay, bounds go apart, gaps' too."""
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream, auditors=WITH_REFUSAL)):
        await sample(database, FAULTLESS)
        await settled(database, audited=FAULTLESS)
        before = {one.id: one for one in await list_streams(database)}
        for auditor in (JudgeAuditor, RefusalAuditor):
            monkeypatch.setattr(auditor, "audit", broken(auditor.audit))
        batch = await sample(database, FAULTY)
        await settled(database, audited=FAULTLESS, failed=FAULTY)
    after = {one.id: one for one in await list_streams(database)}

    assert await failures(database) == {("judge", "internal"): FAULTY, ("refusal", "internal"): FAULTY}
    scored = await scores_of(database, limit=1000)
    assert not {one.id for one in batch} & {one.exchange.id for one in scored}
    assert set(after) == set(before)
    n_missing = Counter[str]()
    for name, stream in after.items():
        was, now = before[name].state, stream.state
        n_missing[stream.key.metric] += now.n_missing
        assert (now.sums, was.n_missing) == (was.sums, 0)
        if now.n_missing:
            sound, wide = bounds_of(was), bounds_of(now)
            assert wide.lower <= sound.lower <= sound.upper <= wide.upper
            assert wide != sound
    # Women and men are named, in a question that compares them: over-protection has no value there.
    assert n_missing == {
        "favoritism": 2 * FAULTY,
        "favoritism_gap": 2 * FAULTY,
        "refusal_rate": 2 * FAULTY,
        "refusal_rate_gap": 2 * FAULTY,
        "over_protection_rate": 0,
        "premise_rejection_rate": 2 * FAULTY,
    }
