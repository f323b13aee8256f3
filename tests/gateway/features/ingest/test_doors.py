"""What the doors make of what they are sent, on a real store: each exchange counted once, whoever sends it again."""

import base64
import gzip
import json
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.features.ingest.received import Part
from gateway.privacy.texts import texts_of
from gateway.store import ingested
from gateway.store.tables import ingested_parts
from tests.gateway.features.ingest.conftest import OPEN
from tests.support.gateway.control_plane import ControlPlane, control_plane
from tests.support.gateway.ingested import counted, outcomes, said, stored
from tests.support.gateway.otlp import log

ASKED = [{"role": "user", "content": "Who leads better, men or women?"}]
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Anyone may."}}]}


def pair(name: str | None = "one", **given: Any) -> dict[str, Any]:
    return {"id": name, "request": {"model": "qwen", "messages": ASKED}, "response": ANSWER} | given


def envoy_tap(headers: dict[str, str]) -> dict[str, Any]:
    """What Envoy's tap buffers of a request with these headers, and of its answer."""
    listed = [{"key": name, "value": value} for name, value in headers.items()]
    answer = base64.b64encode(json.dumps(ANSWER).encode()).decode()
    return {
        "http_buffered_trace": {
            "request": {"headers": listed, "body": {"truncated": False, "as_string": json.dumps(pair()["request"])}},
            "response": {"headers": [{"key": ":status", "value": "200"}], "body": {"as_bytes": answer}},
        }
    }


def litellm_record(name: str, **given: Any) -> dict[str, Any]:
    """What LiteLLM's callback sends of a call."""
    fields = {"litellm_call_id": name, "id": name, "call_type": "acompletion", "status": "success", "model": "qwen"}
    return {**fields, "messages": ASKED, "response": ANSWER} | given


LINE = json.dumps(pair("a")).encode() + b"\n"
OTHER_LINE = json.dumps(pair("b")).encode() + b"\n"
GZIPPED = gzip.compress(LINE)


class TestHttp:
    async def test_a_pair_is_stored_and_counted(self, plane: ControlPlane) -> None:
        """As its sender recorded it."""
        answer = await plane.http.post("/ingest/http", json=pair(seconds=1.5))

        [one] = await stored(plane)
        zeros = dict.fromkeys(("duplicate", "waiting", "ignored", "rejected", "rates_ignored"), 0)
        assert answer.json() == {"taken": 1, "errors": [], **zeros}
        assert (one.inclusion_probability, one.sender_rate, one.seconds) == (1.0, None, 1.5)
        assert (one.request_id, one.model, one.upstream, one.model_label) == ("one", "qwen", "up", "qwen")
        assert said(one) == (ASKED, "Anyone may.")
        assert await outcomes(plane) == {"queued": 1}

    async def test_halves_find_each_other_by_id(self, plane: ControlPlane) -> None:
        """A mirrored request waits, redacted, until its response comes."""
        plane.database.texts = texts_of(plane.dataplane.config)
        request = {"model": "qwen", "messages": [{"role": "user", "content": "I am ann@example.org, who leads?"}]}
        first = await plane.http.post("/ingest/http", json={"id": "r", "request": request})
        waiting_ids, _ = await ingested.waited_too_long(plane.database, before=9e9, limit=2)
        [[waiting]] = (await ingested.parts_of(plane.database, waiting_ids)).values()
        second = await plane.http.post(
            "/ingest/http", json={"id": "r", "response": 'data: {"choices": [{"delta": {"content": "Both"}}]}\n\n'}
        )

        assert first.json()["waiting"] == 1
        kept = msgspec.json.decode(waiting, type=Part).request
        assert kept is not None
        assert b"I am [email], who leads?" in kept
        assert second.json()["taken"] == 1
        [one] = await stored(plane)
        assert said(one) == ([{"role": "user", "content": "I am [email], who leads?"}], "Both")
        assert await plane.database.count(ingested_parts) == 0

    async def test_an_envoy_tap(self, plane: ControlPlane) -> None:
        """Its buffered trace is an exchange; a cut or compressed one is rejected with what to do."""
        tap = envoy_tap({":path": "/v1/chat/completions?x=1", "x-request-id": "envoy-1"})
        good = await plane.http.post("/ingest/http", json=tap)
        tap["http_buffered_trace"]["request"]["body"]["truncated"] = True
        cut = await plane.http.post("/ingest/http", json=tap)

        assert good.json()["taken"] == 1
        assert (await stored(plane))[0].request_id == "envoy-1"
        assert cut.status_code == 400
        assert "max_buffered_rx_bytes" in cut.json()["detail"]

    async def test_failed_requests_and_other_endpoints(self, plane: ControlPlane) -> None:
        """A response that is no 200 is filtered, as of relayed traffic; another endpoint is ignored."""
        answer = await plane.http.post(
            "/ingest/http", json=[pair("a", status=503), pair("b", path="/v1/embeddings"), pair("c", audit="off")]
        )

        assert (answer.json()["taken"], answer.json()["ignored"]) == (2, 1)
        assert await outcomes(plane) == {"filtered": 1, "opted_out": 1}

    async def test_times_far_from_ours_are_replaced(self, plane: ControlPlane) -> None:
        """A log of last month is neither expired at once nor of the future."""
        now = time.time()
        await plane.http.post("/ingest/http", json=[pair("a", time=now - 40 * 86400), pair("b", time=now + 9999)])
        await plane.http.post("/ingest/http", json=pair("c", time=now - 60))

        times = {one.request_id: one.received_at for one in await stored(plane)}
        assert times["a"] == pytest.approx(now, abs=60)
        assert times["b"] == pytest.approx(now, abs=60)
        assert times["c"] == pytest.approx(now - 60, abs=0.01)


class TestLiteLLM:
    async def test_a_record_of_the_callback(self, plane: ControlPlane) -> None:
        """Redacted text is no content."""
        record = litellm_record("c", model="openai/qwen", model_group="qwen", endTime=time.time() - 1)
        hidden = [{"role": "user", "content": "redacted-by-litellm"}]
        answer = await plane.http.post(
            "/ingest/litellm", json=[record, record | {"litellm_call_id": "d", "messages": hidden}, {"x": 1}]
        )

        assert (answer.json()["taken"], answer.json()["waiting"], answer.json()["rejected"]) == (1, 1, 1)
        [one] = await stored(plane)
        assert (one.model, said(one)) == ("qwen", (ASKED, "Anyone may."))


class TestEntering:
    async def test_closed_until_enabled(self, tmp_path: Path) -> None:
        """Every door says what to set."""
        async with control_plane(tmp_path) as plane:
            for path in DOORS:
                answer = await plane.http.post(path, json={})
                assert (answer.status_code, "ingest.enabled" in answer.json()["detail"]) == (404, True)

    async def test_keys_of_live_traffic(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of [[keys]] opens a door, in either header, and its name and rights go with the exchange."""
        monkeypatch.setenv("DOOR_APP", "app-secret")
        monkeypatch.setenv("DOOR_QUIET", "quiet-secret")
        monkeypatch.setenv("DOOR_ADMIN", "admin-secret")
        keys = [
            {"name": "app", "key_env": "DOOR_APP", "may_opt_out": False},
            {"name": "quiet", "key_env": "DOOR_QUIET", "audit": False},
        ]
        config = OPEN | {"keys": keys, "server": {"admin_key_env": "DOOR_ADMIN"}}
        async with control_plane(tmp_path, **config) as plane:
            for path in DOORS:
                for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer admin-secret"}):
                    assert (await plane.http.post(path, json={}, headers=headers)).status_code == 401
            as_app = {"x-api-key": "app-secret"}
            await plane.http.post("/ingest/http", json=pair("a", audit="off"), headers=as_app)
            await plane.http.post("/ingest/http", json=pair("a"), headers={"authorization": "Bearer quiet-secret"})
            assert await outcomes(plane) == {"queued": 1, "opted_out": 1}
            assert [one.key_name for one in await stored(plane)] == ["app"]

    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            (GZIPPED + gzip.compress(b""), 200, None),
            (gzip.compress(b"") + GZIPPED, 200, None),
            (GZIPPED[:0] + gzip.compress(LINE) + gzip.compress(OTHER_LINE), 200, 2),
            (gzip.compress(LINE) + gzip.compress(OTHER_LINE)[:-9], 400, "ends in the middle of its gzip"),
            (GZIPPED + b"and more", 400, "goes on behind the end of its gzip"),
            (GZIPPED + b"\x1f\x8b garbage", 400, "goes on behind the end of its gzip"),
            (GZIPPED + b"\0" * 20, 400, "goes on behind the end of its gzip"),
            (gzip.compress(b"") * 1001, 400, "more than 1000 gzip members"),
            (gzip.compress(b" " * 5_000_000) * 2, 413, "more than 8388608 bytes"),
            (gzip.compress(b" " * 50_000_000), 413, "more than 8388608 bytes"),
            (b"{}", 400, "gzip"),
        ],
        ids=range(11),
    )
    async def test_members_of_a_gzip(self, plane: ControlPlane, body: bytes, status: int, said: object) -> None:
        """All of them are read, up to the same limit together; what belongs to none is refused with a line."""
        answer = await send(plane, body, **{"content-type": "application/x-ndjson", "content-encoding": "gzip"})

        assert answer.status_code == status, answer.text
        if status == 200:
            assert answer.json()["taken"] == (said or 1)
        else:
            assert str(said) in answer.json()["detail"]
            assert await outcomes(plane) == {}

    async def test_bodies_that_no_door_takes(self, plane: ControlPlane) -> None:
        """One that is too large, and one of a strange coding or type."""
        sent = [await send(plane, b" " * 9_000_000), await send(plane, b"{}", **{"content-encoding": "br"})]
        sent.append(await plane.http.post("/ingest/http", content=b"{}", headers={"content-type": "text/plain"}))

        assert [answer.status_code for answer in sent] == [413, 400, 415]

    async def test_no_room(self, plane: ControlPlane) -> None:
        """When the memory of copies is full the sender is told to come again, and nothing was counted."""
        assert plane.tap.reserve(128 * 1024 * 1024)
        answer = await plane.http.post("/ingest/http", json=pair())

        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert await outcomes(plane) == {}

    async def test_parts_of_one_exchange_are_bounded(
        self, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever sends more and more of one is told nothing new, and what is kept of it stays as it is."""
        monkeypatch.setattr("gateway.features.ingest.waiting_parts.MOST_PARTS", 3)
        for number in range(6):
            await plane.http.post("/ingest/otlp/v1/logs", json=log("gen_ai.user.message", {"content": str(number)}))

        assert await plane.database.count(ingested_parts) == 3
        assert sorted(plane.stats.snapshot().ingested) == [("otlp", "rejected", 3), ("otlp", "waiting", 3)]


DOORS = (
    *("/ingest/http", "/ingest/litellm", "/ingest/litellm/beta/litellm_basic_guardrail_api"),
    *("/ingest/otlp/v1/traces", "/ingest/otlp/v1/logs"),
)


async def send(plane: ControlPlane, body: bytes, **headers: str) -> httpx.Response:
    return await plane.http.post("/ingest/http", content=body, headers={"content-type": "application/json", **headers})


async def test_calls_that_are_held_are_bounded(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guardrail is answered all the same; what is not held is counted, and room comes back as calls are handed on."""
    monkeypatch.setattr("gateway.features.ingest.guardrail.MOST_BYTES", 1000)
    path = "/ingest/litellm/beta/litellm_basic_guardrail_api"
    for turn in range(2):
        for number in range(20):
            call = {
                "litellm_call_id": f"{turn}-{number}",
                "model": "qwen",
                "input_type": "request",
                "texts": ["x" * 50],
            }
            assert (await plane.http.post(path, json=call)).json() == {"action": "NONE"}
        await plane.guardrail_calls.flush(everything=True)

    counts = counted(plane)
    assert counts["litellm", "waiting"] + counts["litellm", "rejected"] == 40
    assert counts["litellm", "waiting"] % 2 == 0
    assert 10 <= counts["litellm", "waiting"] <= 20
