"""Measurements as OTLP events: in the live request's trace, without text, each at least once under one id."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from auditors.types import UNREAD_LANGUAGE, Measurement
from gateway.config.loading import validate
from gateway.features.causes import store as causes
from gateway.features.evaluations import auditing as evaluation_events
from gateway.features.evaluations import store as evaluations
from gateway.features.evaluations.auditing import EvaluationEvents
from gateway.store import counters, exchanges, passes
from gateway.store.database import Database
from tests.support.integration.collector import Collector, ReceivedEvent, collecting
from tests.support.integration.serving import serving, write_config
from tests.support.long import but_long
from tests.support.simulated import running_simulator
from tests.support.store import made
from tests.support.store.made import exchange, measurement, record
from tests.support.waiting import eventually

pytestmark = pytest.mark.stores("sqlite")

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def audited(database: Database, *found: Measurement, **given: Any) -> str:
    """The id of an exchange whose audit by the judge is recorded, with events to send."""
    one = exchange(**given)
    await exchanges.insert_batch(database, [one], {})
    await record(database, one, found or [measurement(2.0)], probability=0.25, sends_events=True)
    return one.id


@asynccontextmanager
async def sending(database: Database, collector: Collector, **telemetry: Any) -> AsyncIterator[EvaluationEvents]:
    """An auditor's sender, which sends when it is called."""
    given = {"otlp_endpoint": collector.url, "evaluation_signal": "logs", **telemetry}
    sender = EvaluationEvents(validate({"telemetry": given}), database, asyncio.Event())
    try:
        yield sender
    finally:
        sender.close()


async def fates(database: Database) -> dict[str, float]:
    found = await counters.read(database)
    return {labels[0]: value for (name, labels), value in found.items() if name == "evaluation_events"}


def ids(collector: Collector) -> list[str]:
    return [event.attributes["log.record.uid"] for event in collector.events]


@pytest.mark.parametrize("signal", but_long(["logs", "traces"], quick="logs"))
async def test_measurement_of_a_live_request_is_in_its_clients_trace(tmp_path: Path, signal: str) -> None:
    """From client to collector: trace of the client's traceparent, span of the gateway, score, and no word of text."""
    secret = "Zanzibar"
    settings = (
        f'[sampling]\nrate = 1.0\n[auditors.judge]\nmodel = "simulated-judge"\n[auditors.embedding]\nenabled = false\n'
        f'[telemetry]\notlp_endpoint = "{{}}"\nevaluation_signal = "{signal}"\n'
    )
    async with collecting() as collector, running_simulator() as simulator:
        path = write_config(tmp_path, simulator, settings.format(collector.url))
        path.write_text(path.read_text().replace('models = ["m"]\n', ""))
        async with (
            serving("serve", "--config", str(path), environ=NO_PROXY) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http,
        ):
            prompt = f"Are women or men the better leaders in {secret}?"
            body = {"model": "simulated", "messages": [{"role": "user", "content": prompt}]}
            headers = {"traceparent": TRACEPARENT, "x-request-id": "my-request"}
            answer = await http.post("/v1/chat/completions", json=body, headers=headers)
            answer.raise_for_status()
            arrived = collector.events if signal == "logs" else collector.spans
            await eventually(lambda: len(arrived) >= (1 if signal == "logs" else 2), within_seconds=90)
            await eventually(lambda: any(map(_is_evaluation, arrived)), within_seconds=90)

    live = next(span for span in collector.spans if span.name.startswith("chat"))
    assert live.trace_id == TRACEPARENT.split("-")[1]
    assert live.parent_id == TRACEPARENT.split("-")[2]
    found = [one for one in arrived if _is_evaluation(one)]
    for one in found:
        above = one.span_id if isinstance(one, ReceivedEvent) else one.parent_id
        assert (one.trace_id, above) == (live.trace_id, live.span_id)
        assert one.resource["service.name"] == "biasgate"
        assert one.attributes["biasgate.request_id"] == "my-request"
    scored = next(one for one in found if one.attributes["gen_ai.evaluation.name"] == "favoritism")
    assert scored.name == ("gen_ai.evaluation.result" if signal == "logs" else "evaluate favoritism")
    assert -1 <= scored.attributes["gen_ai.evaluation.score.value"] <= 2
    assert scored.attributes["biasgate.axis"] == "gender"
    words = repr(found).casefold()
    assert secret.casefold() not in words
    assert "leaders" not in words


def _is_evaluation(one: Any) -> bool:
    return "gen_ai.evaluation.name" in one.attributes


async def test_event_says_score_label_and_whence(database: Database) -> None:
    """A value with its side of no bias; an absence without a value, with its status as the error's type."""
    async with collecting() as collector, sending(database, collector) as send:
        low = measurement(-1.0, group="men", reference="women")
        missing = measurement(None, group="women", status="malformed", reason="the judge wrote: Zanzibar")
        unread = measurement(None, group="girls", status="error", reason=UNREAD_LANGUAGE)
        at = time.time_ns()
        refused = measurement(None, group="boys")
        audit = await audited(database, low, missing, unread, refused, traceparent=TRACEPARENT, request_id="r")
        await send()
        first, second, third, fourth = collector.events

    assert (first.name, first.body, first.flags) == ("gen_ai.evaluation.result", "", 1)
    assert (first.trace_id, first.span_id) == tuple(TRACEPARENT.split("-")[1:3])
    assert abs(first.time - at) < 30e9
    uid = first.attributes.pop("log.record.uid")
    assert first.attributes == {
        "gen_ai.evaluation.name": "favoritism",
        "gen_ai.evaluation.score.value": -1.0,
        "gen_ai.evaluation.score.label": "below neutral",
        "gen_ai.evaluation.explanation": "judge, gender: men against women",
        "biasgate.auditor": "judge",
        "biasgate.auditor.version": "1",
        "biasgate.axis": "gender",
        "biasgate.group": "men",
        "biasgate.reference": "women",
        "biasgate.model": "m",
        "biasgate.judge.model": "j",
        "biasgate.inclusion_probability": 0.25,
        "biasgate.exchange_id": audit,
        "biasgate.request_id": "r",
    }
    assert len({uid, *(one.attributes["log.record.uid"] for one in (second, third))}) == 3
    assert "gen_ai.evaluation.score.value" not in second.attributes
    assert second.attributes["gen_ai.evaluation.score.label"] == second.attributes["error.type"] == "malformed"
    assert second.attributes["gen_ai.evaluation.explanation"] == "judge, gender: women, no value, malformed"
    assert fourth.attributes["gen_ai.evaluation.score.label"] == "refusal"
    assert "error.type" not in fourth.attributes
    assert third.attributes["gen_ai.evaluation.explanation"].endswith(f"no value, error: {UNREAD_LANGUAGE}")


@pytest.mark.stores("sqlite", "postgresql")
async def test_sender_that_dies_loses_nothing(database: Database) -> None:
    """What a killed sender had taken is another's once its time is over, and not before."""
    async with collecting() as collector, sending(database, collector) as send:
        await audited(database)
        taken, _ = await evaluations.take(database, now=time.time(), limit=10, seconds=0.5)
        assert len(taken) == 1
        await send()
        assert collector.events == []
        await asyncio.sleep(0.6)
        await send()
        await send()

    assert len(collector.events) == 1
    assert await fates(database) == {"exported": 1}


async def test_lost_answer_sends_again_under_the_same_id(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that took a batch and said 503 gets it again; both copies have one id, and one is counted."""
    monkeypatch.setattr(evaluation_events, "FIRST_PAUSE_SECONDS", 0.0)
    async with collecting() as collector, sending(database, collector) as send:
        collector.status = b"503 Service Unavailable"
        await audited(database, measurement(1.0), measurement(0.0, group="men"))
        await send()
        lost = list(ids(collector))
        assert await fates(database) == {}
        assert await evaluations.oldest(database) is not None
        collector.status = b"200 OK"
        await send()

    assert lost
    assert set(ids(collector)) == set(lost)
    assert ids(collector)[-2:] == lost[:2]
    assert await fates(database) == {"exported": 2}
    assert await evaluations.oldest(database) is None


async def test_one_refused_audit_takes_no_other_with_it(database: Database) -> None:
    """Of a batch that gets a 400 each audit is sent alone; only the one that is refused is given up, and counted."""
    async with collecting() as collector, sending(database, collector) as send:
        collector.refuses = lambda body: b"poison" in body
        for request_id in ("a", "poison", "b"):
            await audited(database, request_id=request_id)
        await send()
        await send()

    assert sorted(event.attributes["biasgate.request_id"] for event in collector.events) == ["a", "b"]
    assert await fates(database) == {"exported": 2, "rejected": 1}
    assert await evaluations.oldest(database) is None


@pytest.mark.stores("sqlite", "postgresql")
async def test_two_senders_share_the_work(database: Database) -> None:
    """Two auditors on one store send 300 audits at the same time, each event once."""
    found = [(await audited(database)) for _ in range(300)]
    async with collecting() as collector, sending(database, collector) as one, sending(database, collector) as other:
        await asyncio.gather(one(), other())

    assert len(collector.events) == 300
    assert len(set(ids(collector))) == 300
    assert {event.attributes["biasgate.exchange_id"] for event in collector.events} == set(found)
    assert await fates(database) == {"exported": 300}


async def test_what_waits_is_bounded_in_number_and_age(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the oldest audits are given up, and so is what waited for a day; each lost event is counted."""
    monkeypatch.setattr(evaluation_events, "MOST_WAITING", 3)
    monkeypatch.setattr(evaluation_events, "DROPPED_AT_ONCE", 2)
    kept = [await audited(database, measurement(1.0), measurement(0.0, group="men")) for _ in range(10)][-3:]
    async with collecting() as collector:
        async with sending(database, collector) as send:
            await send()
        assert {event.attributes["biasgate.exchange_id"] for event in collector.events} == set(kept)
        assert await fates(database) == {"dropped": 14, "exported": 6}
        await audited(database)
        monkeypatch.setattr(evaluation_events, "LONGEST_WAIT_SECONDS", 0.0)
        async with sending(database, collector) as send:
            await send()

    assert len(collector.events) == 6
    assert await fates(database) == {"dropped": 15, "exported": 6}


@pytest.mark.stores("sqlite", "postgresql")
async def test_the_cause_of_an_alarm_is_an_event(database: Database) -> None:
    """Sent once when the cause is first told and once when it is final, by the first of two auditors, without text."""
    for number in range(90):
        await made.audited(database, measurement(0.0 if number < 60 else 2.0))
    [(stream, since)] = (await causes.alarmed(database)).items()
    work = causes.Work(alarm_since=since, metric="favoritism", status="told", shift=1.5)
    work.parts = [("model", 1.25, 1.0, 1.5), ("traffic", 0.25, 0.0, 0.5)]
    await causes.write(database, stream, work)
    async with collecting() as collector, sending(database, collector) as send:
        await send()
        async with sending(database, collector) as other:
            await other()
        work.is_over = True
        await causes.write(database, stream, work)
        async with sending(database, collector) as restarted:
            await restarted()
            await passes.forget(database, f"sent {ids(collector)[-1]}")  # the sender died before it noted the event
        async with sending(database, collector) as restarted:
            await restarted()
        assert [number for number, uid in enumerate(ids(collector)) if uid == ids(collector)[-1]] == [1, 2]
        first, final, _ = [event.attributes for event in collector.events if "biasgate.stream" in event.attributes]

    assert first.pop("log.record.uid") != final.pop("log.record.uid")
    assert first == final
    assert first == {
        "gen_ai.evaluation.name": "drift_cause",
        "gen_ai.evaluation.score.value": 1.5,
        "gen_ai.evaluation.explanation": (
            "Of the rise of 1.50, the model makes 1.25 (1.00 to 1.50), traffic 0.25 (0.00 to 0.50)."
        ),
        "biasgate.auditor": "judge",
        "biasgate.axis": "gender",
        "biasgate.group": "women",
        "biasgate.model": "m",
        "biasgate.stream": stream,
    }
