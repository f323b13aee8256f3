"""A judge or embedder that is sick: its exchanges wait, everybody is told, and nothing is lost or measured twice."""

import json
import logging
import re
import urllib.error
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.types import Exchange
from gateway.auditor import circuits as watched
from gateway.auditor import maintenance
from gateway.config.schema import Config
from gateway.store import circuits, exchanges, ledger, tables
from gateway.store.circuits import Key
from gateway.store.database import Database
from tests.integration.test_recorded_audits import failures, repeated
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.integration.auditing import (
    PROMPT,
    auditing,
    config_for,
    exposes,
    fetch,
    labelled,
    metrics,
    sample,
    settled,
    until,
)
from tests.support.processes import free_port
from tests.support.store.made import list_streams
from tests.support.store.scored import Scored, scores_of

pytestmark = pytest.mark.long

N = 12
NO_FINDING = chat('{"refused": false, "findings": []}')
IMPATIENT = 2.0
"""Seconds for an audit of a judge that hangs."""
TOO_LATE = 30.0
JUDGE = Key("judge", "auditors.judge")
POISON = PROMPT.replace(b"leaders?", b"poisoners?")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes by every few seconds comes by at once."""
    monkeypatch.setattr("gateway.auditor.process.SWEEP_SECONDS", 0.3)
    monkeypatch.setattr("gateway.auditor.process.CIRCUIT_SECONDS", 0.2)
    monkeypatch.setattr(watched, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(watched, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(maintenance, "SWEEP_AFTER_SECONDS", 0.0)


def judged_at(database: Database, judge_url: str, *, patience: float = 30.0, **audits: Any) -> Config:
    """The judge on a server of its own, the refusal auditor beside it."""
    judge = {"model": "j", "base_url": judge_url, "timeout_seconds": patience}
    sections: dict[str, Any] = {"judge": judge, "refusal": {"enabled": True}, "embedding": {"enabled": False}}
    return config_for(database.url, "http://127.0.0.1:9", auditors=sections, audits=audits)


async def is_open(database: Database) -> bool:
    return [one.key for one in await circuits.open_circuits(database)] == [JUDGE]


async def done_by(database: Database, auditor: str) -> int:
    """Exchanges that an auditor is done with."""
    query = sa.select(sa.func.count()).where(tables.exchange_audits.c.auditor == auditor)
    async with database.read() as connection:
        return (await connection.execute(query)).scalar_one()


async def readiness(url: str) -> tuple[int, dict[str, str]]:
    """Status and checks."""
    try:
        return 200, json.loads(await fetch(f"{url}/readyz"))["checks"]
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)["checks"]


async def says(url: str, auditor: str, words: str) -> bool:
    return words in (await readiness(url))[1].get(auditor, "")


def audited_once(scored: list[Scored], batch: list[Exchange]) -> bool:
    """Whether the judge and the refusal auditor measured each exchange, and nothing twice."""
    found = Counter((one.exchange.id, one.metric, one.group) for one in scored)
    expected = {
        (one.id, metric, group)
        for one in batch
        for metric, group in (("favoritism", "man"), ("favoritism", "woman"), ("refusal_rate", "man"))
    }
    return expected <= set(found) and set(found.values()) == {1}


SICK: dict[str, Reply] = {
    "answers 500": Reply(b'{"error": {"message": "Are women or men better leaders?"}}', 500),
    "answers 401": Reply(b'{"error": {"message": "Are women or men better leaders?"}}', 401),
    "hangs": NO_FINDING._replace(delay=TOO_LATE),
    "answers nonsense": chat("Are women or men better leaders?"),
    "answers no JSON": Reply(b"<html>Are women or men better leaders?</html>"),
}
ERRORS = {
    "answers 500": "status 500",
    "answers 401": "status 401",
    "hangs": "no reply (?:within 2 s|before the audit's time was up)",
    "answers nonsense": "a reply that cannot be read",
    "answers no JSON": "a reply that cannot be read",
}
OUTCOMES = {
    "answers 500": "error",
    "answers 401": "rejected",
    "hangs": "timeout",
    "answers nonsense": "malformed",
    "answers no JSON": "malformed",
}


async def has_asked(url: str, outcomes: set[str]) -> bool:
    """Whether requests of judges are counted with these outcomes, and no other."""
    found = [labels for name, labels in await metrics(url) if name.endswith("judge_requests_total")]
    return {dict(labels)["outcome"] for labels in found} == outcomes


@pytest.mark.parametrize("how", SICK)
@pytest.mark.stores("sqlite")
async def test_exchanges_wait_for_a_sick_judge(how: str, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing fails, the other auditor goes on, metrics and /readyz say so; once it is well each is measured, once."""
    caplog.set_level(logging.INFO, logger="gateway.auditor.circuits")
    patience = IMPATIENT if how == "hangs" else 30.0
    async with (
        scripted_server(lambda _: SICK[how]) as judge,
        auditing(judged_at(database, judge.base_url, patience=patience)) as url,
    ):
        batch = await sample(database, N)
        await until(partial(is_open, database))
        await until(partial(exposes, url, labelled("auditor_waiting_exchanges", auditor="judge"), N))
        await until(partial(says, url, "judge", f", {N} exchanges wait, "))
        await until(partial(exposes, url, labelled("auditor_circuit_open", auditor="judge"), 1))
        said = await metrics(url)
        status, checks = await readiness(url)
        alive = json.loads(await fetch(f"{url}/livez"))
        assert await done_by(database, "refusal") == N
        assert await ledger.counts(database) == {("other", "queued"): N}

        judge.script = lambda _: NO_FINDING
        await settled(database, audited=N)
        await until(partial(exposes, url, labelled("auditor_circuit_open", auditor="judge"), 0))
        assert (await readiness(url))[0] == 200
        await until(partial(has_asked, url, {OUTCOMES[how], "ok"}))

    assert said[labelled("auditor_circuit_open", auditor="refusal")] == 0
    assert (status, checks["store"], alive) == (503, "ok", {"status": "ok"})
    expected = rf"circuit open since \d\d:\d\d UTC, {N} exchanges wait, last error: .*{ERRORS[how]} \(auditors.judge\)"
    assert re.fullmatch(expected, checks["judge"])
    assert "leaders" not in checks["judge"]
    assert audited_once(await scores_of(database, limit=1000), batch)
    assert {one.state.n_missing for one in await list_streams(database)} == {0}
    logged = [record.getMessage().split(" after ")[0] for record in caplog.records if record.name == watched.__name__]
    assert logged == ["judge: circuit of auditors.judge open", "judge: circuit of auditors.judge closed"]


def is_of_the_sample(asked: Asked) -> bool:
    return asked.path == "/v1/chat/completions" and "leaders" in repeated(asked)


def is_poison(asked: Asked) -> bool:
    return asked.path == "/v1/chat/completions" and "poisoners" in repeated(asked)


def hangs(asked: Asked) -> Reply:
    return NO_FINDING._replace(delay=TOO_LATE if is_poison(asked) else 0.0)


def breaks(asked: Asked) -> Reply:
    return Reply(b"{}", 500) if is_poison(asked) else NO_FINDING


def garbles(asked: Asked) -> Reply:
    return chat("?") if is_poison(asked) else NO_FINDING


@pytest.mark.stores("sqlite")
@pytest.mark.parametrize("script", [garbles, breaks, hangs])
async def test_a_client_cannot_make_a_judge_look_sick(script: Callable[[Asked], Reply], database: Database) -> None:
    """The judge fails twelve texts of one client and gets no others: a known good text shows that the judge is well."""
    were_open = []

    async def have_failed() -> bool:
        were_open.append(await is_open(database) or "judge" in (await readiness(url))[1])
        return sum((await failures(database)).values()) == N

    patience = IMPATIENT if script is hangs else 30.0
    async with (
        scripted_server(script) as judge,
        auditing(judged_at(database, judge.base_url, patience=patience)) as url,
    ):
        await sample(database, N, request_body=POISON, key_name="attacker")
        await until(have_failed)
        [honest] = await sample(database, 1, key_name="honest")
        await until(partial(nothing_waits, database), within_seconds=5.0)

    assert not any(were_open)
    assert audited_once([one for one in await scores_of(database) if one.exchange.id == honest.id], [honest])


async def nothing_waits(database: Database) -> bool:
    count, _ = await exchanges.backlog(database)
    return count == 0 and not await circuits.count_waiting(database)


@pytest.mark.stores("sqlite")
async def test_an_auditor_that_starts_anew_knows_what_waits(database: Database) -> None:
    """The circuit is still open after a restart, two auditors at once agree, and each exchange is measured once."""
    async with scripted_server(lambda _: SICK["answers 500"]) as judge:
        config = judged_at(database, judge.base_url)
        async with auditing(config):
            batch = await sample(database, N)
            await until(partial(is_open, database))
        [before] = await circuits.open_circuits(database)
        async with auditing(config) as first, auditing(config) as second:
            for url in (first, second):
                await until(partial(exposes, url, labelled("auditor_circuit_open", auditor="judge"), 1))
                assert (await readiness(url))[0] == 503
            [after] = await circuits.open_circuits(database)
            asked_before = sum(map(is_of_the_sample, judge.asked))
            batch += await sample(database, N)
            await until(partial(exposes, second, labelled("auditor_waiting_exchanges", auditor="judge"), 2 * N))
            assert sum(map(is_of_the_sample, judge.asked)) == asked_before  # only known good exchanges try the server
            judge.script = lambda _: NO_FINDING
            await settled(database, audited=2 * N)
    assert after.opened_at == before.opened_at
    assert audited_once(await scores_of(database, limit=1000), batch)


@pytest.mark.stores("sqlite")
async def test_a_wait_ends(database: Database) -> None:
    """After `audits.max_wait_hours` the audit has failed by name, its groups miss a number, and the rest counts."""
    config = judged_at(database, f"http://127.0.0.1:{free_port()}", max_wait_hours=3 / 3600)
    async with auditing(config) as url:
        await sample(database, N)
        await settled(database, audited=N)  # by the refusal auditor
        reason = labelled("abstentions_total", auditor="judge", reason="waited too long")
        await until(partial(exposes, url, reason, N))
        assert (await metrics(url))[labelled("exchanges_total", outcome="failed", auditor="judge")] == N
    assert await failures(database) == {("judge", "waited_too_long"): N}
    async with database.read() as connection:
        query = sa.select(tables.exchange_audits.c.message).where(tables.exchange_audits.c.auditor == "judge")
        messages = set((await connection.execute(query)).scalars())
    assert all(one.startswith("waited 0.000833333 h for auditors.judge: 127.0.0.1:") for one in messages)
    judged = [one for one in await list_streams(database) if one.key.auditor == "judge"]
    assert {(one.state.sums.n, one.state.n_missing) for one in judged} == {(0, N)}


@pytest.mark.stores("sqlite")
async def test_a_sick_embedder_holds_up_nobody_else(database: Database) -> None:
    """The judge and the refusal auditor measure; the model is not asked again and again for answers to compare."""
    vectors = Reply(b"{}", 503)

    def script(asked: Asked) -> Reply:
        if asked.path != "/v1/embeddings":
            return NO_FINDING if "response_format" in asked.json else chat("An answer.")
        rows = [{"index": i, "embedding": [1.0, float(i)]} for i in range(len(asked.json["input"]))]
        return vectors if vectors.status != 200 else Reply(msgspec.json.encode({"data": rows}))

    async with scripted_server(script) as server:
        sections = {
            "judge": {"model": "j"},
            "refusal": {"enabled": True},
            "embedding": {"model": "e", "base_url": server.base_url},
        }
        async with auditing(config_for(database.url, server.base_url, auditors=sections)):
            batch = await sample(database, N)

            async def embedding_waits() -> bool:
                return (await circuits.count_waiting(database)).get("embedding", (0,))[0] == N

            await until(embedding_waits)
            found = [one.key for one in await circuits.open_circuits(database)]
            probes = sum("response_format" not in one.json and "messages" in one.json for one in server.asked)
            assert (await done_by(database, "judge"), await done_by(database, "refusal")) == (N, N)
            vectors = Reply(b"", 200)
            await settled(database, audited=N)
    assert found == [Key("embedding", "auditors.embedding")]
    assert probes < 12 * N  # 12 an exchange: fewer than if each had been asked about once before the circuit opened
    scored = await scores_of(database, auditor="embedding", limit=1000)
    assert Counter(one.exchange.id for one in scored) == {one.id: 11 for one in batch}
