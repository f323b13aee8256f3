"""Sampled exchanges are copied as they pass; a copy never costs the client anything."""

import gzip
from typing import Any, Literal

import pytest

from auditors.types import Exchange
from gateway.proxy.sampled_copy import LARGEST_PROBE_BYTES
from gateway.proxy.types import Sampled, SamplingRequest
from tests.support.integration.relaying import RememberingTap, config_for, relaying, running_gateway
from tests.support.integration.scripted_upstream import raw, reply, scripted_upstream

BODY = b'{"model": "alias", "stream": true}'
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
)


async def test_a_sampled_exchange() -> None:
    """The copy holds the client's body, the response's body without its chunks, and what is known about both."""
    tap = RememberingTap(samples=True)
    async with relaying(raw(STREAM), tap=tap, aliases={"alias": "m"}, sampling={"tags": ["hr"]}) as run:
        headers = {"x-request-id": "r1", "x-biasgate-tag": "hr", "x-biasgate-audit": "on"}
        answer = await run.http.post("/v1/chat/completions?x=1", content=BODY, headers=headers)

    (exchange,) = tap.offered
    assert answer.content == b"abcde"
    assert exchange == Exchange(
        id=exchange.id,
        request_id="r1",
        received_at=exchange.received_at,
        endpoint="/v1/chat/completions",
        model="alias",
        served_model="m",
        upstream="up0",
        stream=True,
        status_code=200,
        content_type="text/event-stream",
        stratum="other",
        inclusion_probability=0.5,
        request_body=BODY,
        response_body=b"abcde",
        tag="hr",
        model_label="m",
        seconds=exchange.seconds,
        first_chunk_seconds=exchange.first_chunk_seconds,
    )
    assert exchange.seconds is not None
    assert exchange.first_chunk_seconds is not None
    assert 0.0 < exchange.first_chunk_seconds <= exchange.seconds < 60.0
    place = {"tag": "hr", "model": "m", "route": "/v1/chat/completions"}
    assert tap.decisions == [
        {
            "exchange_id": exchange.id,
            "eligible": True,
            "body": BODY,
            "opt": "on",
            "may_opt": True,
            "key_name": None,
            **place,
        }
    ]
    assert tap.dropped == []


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        (reply(b"{}", "400 Bad Request"), "filtered", "status"),
        (reply(b"\x1f\x8b", headers=b"content-encoding: br\r\n"), "filtered", "content_encoding"),
        (raw(STREAM[:-7], then_close=True), "filtered", "unfinished"),
        (raw(b"garbage\r\n\r\n"), "filtered", "unfinished"),
        (reply(b"x" * 101), "truncated", None),
    ],
    ids=["status", "compressed", "cut off", "garbage", "over the cap"],
)
async def test_copies_that_are_dropped(script: Any, outcome: str, reason: str | None) -> None:
    """An exchange that cannot be audited is counted once, and its client is served all the same."""
    tap = RememberingTap(samples=True, max_copy_bytes=100)
    async with relaying(script, tap=tap) as run, run.http.stream("POST", "/v1/completions", content=b"{}") as answer:
        received = b"".join([chunk async for chunk in answer.aiter_raw()])

    assert (tap.offered, tap.dropped) == ([], [("other", outcome)])
    assert tap.filtered == ([reason] if reason else [])
    assert received


async def test_an_answer_that_is_compressed() -> None:
    """Its client gets it byte for byte, and the copy says how it is to be read."""
    tap, body = RememberingTap(samples=True), gzip.compress(b'{"choices": []}')
    async with (
        relaying(reply(body, headers=b"content-encoding: GZIP\r\n"), tap=tap) as run,
        run.http.stream("POST", "/v1/completions", content=b"{}") as answer,
    ):
        received = b"".join([chunk async for chunk in answer.aiter_raw()])

    [copy] = tap.offered
    assert (received, copy.response_body, copy.content_encoding) == (body, body, "gzip")


async def test_copies_in_the_making_share_a_bounded_memory() -> None:
    """A copy that finds no memory is given up and counted, and gives back what it had, as at every other end."""
    pieces = b"".join(b"%x\r\n%b\r\n" % (1000, b"x" * 1000) for _ in range(40)) + b"0\r\n\r\n"
    long = raw(STREAM[: STREAM.index(b"\r\n\r\n") + 4] + pieces)
    tap = RememberingTap(samples=True, memory_bytes=30_000)
    async with relaying(long, reply(b"{}"), reply(b"{}", "400 Bad Request"), tap=tap) as run:
        answers = [await run.http.post("/v1/completions", content=b"{}") for _ in range(3)]

    assert [len(answer.content) for answer in answers] == [40_000, 2, 2]
    assert tap.dropped == [("other", "failed"), ("other", "filtered")]
    assert [exchange.response_body for exchange in tap.offered] == [b"{}"]
    assert tap.reserved_bytes == 0


async def test_what_is_eligible() -> None:
    """Only POSTs to the text endpoints are; a refused request is not even asked about."""
    tap = RememberingTap(samples=True)
    async with relaying(tap=tap) as run:
        for method, path in (
            ("POST", "/v1/messages"),
            ("POST", "/v1/responses"),
            ("GET", "/v1/chat/completions"),
            ("POST", "/v1/embeddings"),
        ):
            await run.http.request(method, path)
        run.upstream.is_healthy = False  # nor will a check bring it back
        run.gateway.plane.upstreams[0].mark_down("gone")
        await run.http.post("/v1/messages")

    assert [decision["eligible"] for decision in tap.decisions] == [True, True, False, False]
    assert len(tap.offered) == 2


SPELLINGS = [
    "/v1/chat/%63ompletions",
    "/v1/%63%68%61%74/completions?x=1",
    "/v1/chat%2Fcompletions",
    "/v1//chat/completions",
    "/v1/chat/completions/",
]


@pytest.mark.parametrize("target", SPELLINGS)
async def test_no_spelling_of_a_path_leaves_a_request_out(target: str) -> None:
    """An escaped path means the same to the upstream, which gets it as it was written, so it is sampled as ever."""
    tap = RememberingTap(samples=True)
    async with scripted_upstream() as upstream, running_gateway(config_for(upstream), tap=tap) as gateway:
        await gateway.exchange(
            f"POST {target} HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}".encode()
        )

    assert [request.target for request in upstream.requests] == [target]
    assert [(one["eligible"], one["route"]) for one in tap.decisions] == [(True, "/v1/chat/completions")]
    assert [one.endpoint for one in tap.offered] == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("headers", "size", "expected"),
    [
        ({"x-biasgate-probe": "mark"}, 2, ("off", True)),
        ({"x-biasgate-probe": "mark", "x-biasgate-audit": "on"}, 2, ("off", True)),
        ({"x-biasgate-probe": "another"}, 2, (None, False)),
        ({"x-biasgate-probe": "another", "x-biasgate-audit": "off"}, 2, ("off", False)),
        ({"x-biasgate-probe": ""}, 2, (None, False)),
        ({"x-biasgate-probe": "mark"}, 101, (None, False)),
    ],
)
async def test_probes(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], size: int, expected: tuple[str | None, bool]
) -> None:
    """A probe's mark opts it out, whatever its key may do; what is no mark changes nothing, nor above the cap."""
    monkeypatch.setenv("PLAIN", "PLAIN")
    keys = [{"name": "plain", "key_env": "PLAIN", "may_opt_out": False}]
    tap = RememberingTap(max_copy_bytes=100)
    async with relaying(tap=tap, keys=keys) as run:
        sent = {"authorization": "Bearer PLAIN", **headers}
        await run.http.post("/v1/completions", content=b"{}".ljust(size), headers=sent)

    assert [(one["opt"], one["may_opt"]) for one in tap.decisions] == [expected]
    assert not [name for name, _ in run.upstream.requests[0].headers if name.startswith("x-biasgate")]


async def test_no_mark_makes_the_gateway_hash_megabytes() -> None:
    """A body larger than any question of an auditor is no probe, whatever its header says."""
    tap = RememberingTap(max_copy_bytes=1 << 24)
    async with relaying(tap=tap) as run:
        for size in (LARGEST_PROBE_BYTES, LARGEST_PROBE_BYTES + 1):
            content = b'{"a": "%b"}' % (b"x" * (size - 9))
            await run.http.post("/v1/completions", content=content, headers={"x-biasgate-probe": "mark"})

    assert [(len(one["body"]), one["opt"]) for one in tap.decisions] == [
        (LARGEST_PROBE_BYTES, "off"),
        (LARGEST_PROBE_BYTES + 1, None),
    ]


class BrokenTap(RememberingTap):
    """Raises wherever it is told to."""

    breaks_at: str = "decide"

    def decide(self, request: SamplingRequest) -> Sampled | None:
        if self.breaks_at == "decide":
            raise RuntimeError("no decision")
        return super().decide(request)

    def offer(self, exchange: Exchange) -> None:
        if self.breaks_at == "offer":
            raise RuntimeError("no room")
        super().offer(exchange)

    def drop(self, stratum: str, outcome: Literal["filtered", "truncated", "failed"]) -> None:
        if self.breaks_at == "drop":
            raise RuntimeError("no count")
        super().drop(stratum, outcome)


@pytest.mark.parametrize("breaks_at", ["decide", "offer", "drop"])
async def test_a_broken_tap(breaks_at: str, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of the tap are logged, the exchange goes on as if there were none, and a copy that was lost is counted."""
    tap = BrokenTap(samples=True)
    tap.breaks_at = breaks_at
    script = reply(b"{}", "400 Bad Request") if breaks_at == "drop" else reply(b"{}")
    async with relaying(script, tap=tap) as run:
        answer = await run.http.post("/v1/completions", content=b"{}")

    assert answer.content == b"{}"
    assert run.gateway.stats.outcomes == ["complete"]
    assert [record.name for record in caplog.records if record.levelname == "ERROR"] == ["gateway.proxy.sampled_copy"]
    assert tap.dropped == ([("other", "failed")] if breaks_at == "offer" else [])
    assert tap.reserved_bytes == 0
