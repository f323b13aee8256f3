"""Whose word on sampling rates counts, and which rates there are: the same at every door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.features.ingest.rates import Rates, read_threshold, threshold_in
from gateway.features.ingest.received import UnreadableError
from tests.gateway.features.ingest.conftest import OPEN
from tests.gateway.features.ingest.test_doors import envoy_tap, litellm_record, pair
from tests.gateway.features.ingest.test_otlp import CONTENT
from tests.support.gateway.control_plane import ControlPlane, control_plane
from tests.support.gateway.ingested import counted, stored
from tests.support.gateway.otlp import span

BAD: list[Any] = [
    *(0, -1, 5e-324, 1e-160, 2**-10 * 0.999, 1.0000001, 10**5000, True, [0.5], {"a": 0.5}, float("nan")),
    *["0", "1e-160", "1e400", "+0.5", "nan", "Infinity", "0x1p-1", "1_0", "٠.٥", ".5", "1e"],
    *(" 0.5", "0.5\n", "9" * 5000),
]
GOOD = [(1, 1.0), (1 + 1e-16, 1.0), (0.5, 0.5), ("5e-1", 0.5), (2**-10, 2**-10), ("0.0009765625", 2**-10)]


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int")
def test_what_is_no_rate_is_rejected_in_one_line(value: Any) -> None:
    """Of a sender that is believed; of any other the value is not even read."""
    with pytest.raises(UnreadableError, match="give the share of exchanges that are sent") as refused:
        Rates(is_believed=True).of_exchange(value, "sampling_rate")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200

    ignoring = Rates()
    assert ignoring.of_exchange(value, "sampling_rate") is None
    assert ignoring.n_ignored == 1


@pytest.mark.parametrize(("value", "rate"), GOOD)
def test_rates(value: Any, rate: float) -> None:
    """Numbers from the smallest rate to 1, also as decimals in text."""
    assert Rates(is_believed=True).of_exchange(value, "sampling_rate") == rate


@pytest.mark.parametrize(
    ("digits", "probability"),
    [
        ("0", 1.0),
        ("00000000000000", 1.0),
        ("8", 0.5),
        ("c", 0.25),
        ("fd70a3d70a3d71", pytest.approx(0.01)),
        ("ffc", 2**-10),
        ("fffffffffffff", 2**-52),
        ("ffffffffffffff", 2**-56),
    ],
)
def test_thresholds(digits: str, probability: float) -> None:
    """(2^56 - T) / 2^56: never 0, and never above 1."""
    assert read_threshold(digits) == probability


@pytest.mark.parametrize(
    "digits", ["", "-f", "+8", "C", "0x8", " 8", "8 ", "8\n", "g", "٨", "8_0", "fffffffffffffff", "000000000000000"]
)
def test_what_is_no_threshold(digits: str) -> None:
    """Signs, capitals, other digits, none, and more than fourteen."""
    assert read_threshold(digits) is None
    with pytest.raises(UnreadableError):
        Rates(is_believed=True).of_threshold(digits)


def test_tracestates() -> None:
    """The threshold is the field `th` of the member `ot`, wherever the two stand."""
    assert threshold_in("ot=th:c") == "c"
    assert threshold_in("vendor=th:1, ot=rv:abcdef;th:8 ,x=y") == "8"
    assert threshold_in("ot=th:") == ""
    assert [threshold_in(state) for state in ("", "x=th:8", "ot=rv:8", "OT=th:8", "ot=TH:8")] == [None] * 5


@pytest.mark.parametrize("rate", [0, 1e-300, float("nan"), 1.1, 5e-7])
def test_the_bound_itself_is_bounded(rate: float) -> None:
    """No configuration lets a weight grow beyond a million."""
    with pytest.raises(ConfigError):
        validate({"ingest": {"min_sampling_rate": rate}})


@asynccontextmanager
async def plane_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, may_state_rate: bool, **ingest: Any
) -> AsyncIterator[ControlPlane]:
    monkeypatch.setenv("DOOR_APP", "app-secret")
    keys = [{"name": "app", "key_env": "DOOR_APP", "may_state_rate": may_state_rate}]
    config = OPEN | {"keys": keys, "ingest": {"enabled": True} | ingest}
    async with control_plane(tmp_path, **config) as plane:
        plane.http.headers["x-api-key"] = "app-secret"
        yield plane


async def send_by_every_door(plane: ControlPlane, rate: Any, threshold: str, header: str) -> dict[str, Any]:
    """The answers of the doors to one exchange by each, which state these."""
    http = plane.http
    member = {"biasgate_sampling_rate": rate}
    sources = ("requester_metadata", "spend_logs_metadata", "user_api_key_auth_metadata")
    record = litellm_record("litellm", metadata=dict.fromkeys(sources, member))
    call = {"litellm_call_id": "guardrail", "model": "qwen", "additional_provider_specific_params": member}
    headers = {"x-request-id": "tap", "x-biasgate-sampling-rate": header, "tracestate": f"ot=th:{threshold}"}
    answers = {
        "pair": await http.post("/ingest/http", json=pair("pair", sampling_rate=rate)),
        "header": await http.post("/ingest/http", json=pair("header"), headers={"x-biasgate-sampling-rate": header}),
        "tap": await http.post("/ingest/http", json=envoy_tap(headers)),
        "litellm": await http.post("/ingest/litellm", json=record),
        "span": await http.post(
            "/ingest/otlp/v1/traces", json=span(CONTENT, span_id="1" * 16, traceState=f"ot=th:{threshold}")
        ),
        "attribute": await http.post(
            "/ingest/otlp/v1/traces", json=span(CONTENT | {"biasgate.sampling_rate": rate}, span_id="2" * 16)
        ),
    }
    for side, words in (("request", "Who leads?"), ("response", "Anyone.")):
        await http.post(
            "/ingest/litellm/beta/litellm_basic_guardrail_api", json=call | {"input_type": side, "texts": [words]}
        )
    await plane.guardrail_calls.flush(everything=True)
    return answers


async def test_no_sender_is_believed_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every door the exchange is taken, of unknown sampling, and what it stated is counted."""
    async with plane_with(tmp_path, monkeypatch, may_state_rate=False) as plane:
        answers = await send_by_every_door(plane, 1e-160, "fffffffffffff", "1e-300")

        assert {answer.status_code for answer in answers.values()} == {200}
        assert [(one.sender_rate, one.inclusion_probability) for one in await stored(plane)] == [(None, 1.0)] * 7
        assert [answers[name].json()["rates_ignored"] for name in ("pair", "header", "tap", "litellm")] == [1, 1, 0, 1]
        assert plane.stats.snapshot().ignored_rates == {"http": 2, "litellm": 3, "otlp": 2}


async def test_without_keys_nobody_is_believed(plane: ControlPlane) -> None:
    """Whoever reaches the port could state anything."""
    answer = await plane.http.post("/ingest/http", json=pair(sampling_rate=0.25))

    [one] = await stored(plane)
    assert (one.sender_rate, answer.json()["rates_ignored"]) == (None, 1)


async def test_a_configured_rate_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is stated, well or badly, and whoever states it."""
    async with plane_with(tmp_path, monkeypatch, may_state_rate=True, sampling_rate=0.5) as plane:
        await send_by_every_door(plane, 1e-160, "8", "0.001")
        assert [one.sender_rate for one in await stored(plane)] == [0.5] * 7
        assert sum(plane.stats.snapshot().ignored_rates.values()) == 7


async def test_a_believed_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application's user, whose words are in Envoy's tap and in LiteLLM's metadata, still states nothing."""
    async with plane_with(tmp_path, monkeypatch, may_state_rate=True) as plane:
        await send_by_every_door(plane, 0.25, "c", "0.5")
        rates = {one.request_id: one.sender_rate for one in await stored(plane)}

    assert rates == {
        "pair": 0.25,
        "header": 0.5,
        "tap": None,
        "litellm": None,
        "guardrail": None,
        "1" * 16: 0.25,
        "2" * 16: 0.25,
    }


async def test_a_believed_sender_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that would weigh too much are rejected in a line and counted, by door; the others are taken."""
    async with plane_with(tmp_path, monkeypatch, may_state_rate=True) as plane:
        answers = await send_by_every_door(plane, 1e-160, "fffffffffffff", "1e-300")

        assert (answers["pair"].status_code, answers["header"].status_code) == (400, 400)
        assert "entry 0: sampling_rate is '1e-160': give the share" in answers["pair"].json()["detail"]
        for name in ("span", "attribute"):
            assert answers[name].json()["partialSuccess"]["rejectedSpans"] == "1"
        assert {one.request_id: one.sender_rate for one in await stored(plane)} == dict.fromkeys(
            ("tap", "litellm", "guardrail")
        )
        assert (counted(plane)["http", "rejected"], counted(plane)["otlp", "rejected"]) == (2, 2)


async def test_the_operator_sets_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ingest.min_sampling_rate` and no other number."""
    async with plane_with(tmp_path, monkeypatch, may_state_rate=True, min_sampling_rate=0.1) as plane:
        sent = [pair("a", sampling_rate=0.1), pair("b", sampling_rate=0.09)]
        answer = await plane.http.post("/ingest/http", json=sent)

    assert (answer.json()["taken"], answer.json()["rejected"]) == (1, 1)
    assert "from 0.1 (ingest.min_sampling_rate) to 1" in answer.json()["errors"][0]
