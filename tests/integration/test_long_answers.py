"""Long streams and requests with pictures through a real gateway, its writer, the store and an auditor."""

import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.proxy.sampled_copy import LARGEST_PROBE_BYTES
from gateway.sampling.writer.remote import PIECE_BYTES
from gateway.store import exchanges, ledger, tables
from gateway.store.database import Database
from tests.support.integration.auditing import until
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import Command, serving
from tests.support.simulated import running_simulator

QUESTION = "Do women lead better than men?"
LONG = " ".join(["Women lead as well as men, and nobody who was asked could tell them apart."] * 160)
"""2,400 words."""
CHAT = {"model": "simulated", "messages": [{"role": "user", "content": QUESTION}]}
HAS_TO_SAY_IT = {"structured_outputs": {"choice": [LONG]}, "stream": True}


@asynccontextmanager
async def sampling_gateway(
    directory: Path, upstream: str, verb: str, sampling: str = ""
) -> AsyncIterator[tuple[httpx.AsyncClient, Database, Command]]:
    """A gateway that samples everything; with the verb "serve" an auditor beside it, which asks the simulated judge."""
    config = directory / "biasgate.toml"
    config.write_text(
        f'[store]\nurl = "sqlite:///{directory}/biasgate.db"\n'
        f'[[upstreams]]\nname = "u"\nbase_url = "{upstream}"\n'
        f"[server]\nauditor_metrics_port = 0\n[sampling]\nrate = 1.0\n{sampling}\n"
        '[auditors.judge]\nmodel = "simulated-judge"\n[auditors.embedding]\nenabled = false\n'
    )
    async with serving(verb, "--config", str(config)) as running:
        database = await Database.open(f"sqlite:///{directory}/biasgate.db")
        async with httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http:
            yield http, database, running
        await database.close()


async def outcomes(database: Database) -> dict[str, int]:
    return {outcome: count for (_, outcome), count in (await ledger.counts(database)).items() if count}


async def until_outcomes(database: Database, **expected: int) -> None:
    async def hold() -> bool:
        return await outcomes(database) == expected

    await until(hold, within_seconds=60)


async def kept(database: Database) -> dict[str, Exchange]:
    """What is stored, by request id."""
    async with database.read() as connection:
        ids = list((await connection.execute(sa.select(tables.exchanges.c.id))).scalars())
    return {one.request_id: one for one in await exchanges.load(database, ids)}


async def test_real_traffic_is_audited_and_stored_as_its_text(tmp_path: Path) -> None:
    """Large streams and a 5 MB picture are relayed, judged and stored compactly; too much text counts as truncated."""
    picture = base64.b64encode(random.Random(1).randbytes(5_000_000)).decode()
    assert len(picture) > max(LARGEST_PROBE_BYTES, PIECE_BYTES)
    url = {"url": f"data:image/png;base64,{picture}"}
    parts = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": url}]
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "chat": ("/v1/chat/completions", CHAT | HAS_TO_SAY_IT),
        "completion": ("/v1/completions", {"prompt": QUESTION, "max_tokens": 5000} | HAS_TO_SAY_IT),
        "numbers": ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 20}),
        "picture": ("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]}),
        "fits": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 3990}]}),
        "long": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 4001}]}),
    }
    async with (
        running_simulator() as simulator,
        sampling_gateway(tmp_path, simulator, "serve", "max_text_bytes = 20000") as (http, database, _),
    ):
        answers = {
            name: await http.post(path, json={"model": "simulated", **body}, headers={"x-request-id": name})
            for name, (path, body) in asked.items()
        }
        assert {answer.status_code for answer in answers.values()} == {200}
        await until_outcomes(database, audited=5, truncated=1)
        stored = await kept(database)
        metrics = (await http.get("/metrics")).text
    assert sorted(stored) == sorted(asked.keys() - {"long"})
    said = {name: read_conversation(one) for name, one in stored.items()}
    for name in ("chat", "completion"):
        assert answers[name].text.count("data: ") > 2000
        assert len(answers[name].content) > 256 * 1024
        assert (said[name].reply_text, said[name].finish_reason, said[name].notes) == (LONG, "stop", [])
    for name in ("chat", "completion", "numbers"):
        assert len(stored[name].response_body) < 2 * len(said[name].reply_text)
    assert said["numbers"].reply_text == answers["numbers"].json()["choices"][0]["message"]["content"]
    assert len(answers["numbers"].content) > 10 * len(stored["numbers"].response_body)
    assert (said["picture"].prompt_text, said["picture"].notes) == (QUESTION, ["image"])
    assert len(stored["picture"].request_body) < 300
    assert 'biasgate_exchanges_total{outcome="truncated"} 1.0' in metrics


BODY = b'{"model": "simulated", "messages": [{"role": "user", "content": "Do women lead better%b?"}], "x": %b}'
LENIENT = {
    "plain": BODY % (b"", b"1"),
    "lone surrogate": BODY % (rb" \\ud800", b"1"),
    "lone surrogate in an ignored member": BODY % (b"", rb'"\\udfff"'),
    "no UTF-8": BODY % (b" \xff", b"1"),
    "no UTF-8 in an ignored member": BODY % (b"", b'"\xff"'),
    "deep": BODY % (b"", b"[" * 100 + b"]" * 100),
    "deeper": BODY % (b"", b"[" * 450 + b"]" * 450),
    "deepest": BODY % (b"", b'{"a":' * 900 + b"1" + b"}" * 900),
    "too deep": BODY % (b"", b"[" * 5000 + b"]" * 5000),
    "a large number": BODY % (b"", b"1" * 400),
    "NaN": BODY % (b"", b"NaN"),
    "byte order mark": b"\xef\xbb\xbf" + BODY % (b"", b"1"),
    "UTF-16": (BODY % (b"", b"1")).decode().encode("utf-16"),
}
ANSWER = b'{"choices": [{"index": 0, "message": {"content": "Women lead as well as men."}, "finish_reason": "stop"}]}'


async def test_what_is_relayed_is_stored_to_be_audited(tmp_path: Path) -> None:
    """An upstream that reads anything answers: a body that only it reads is refused, or stored as auditors read it."""
    async with (
        scripted_upstream(default=reply(ANSWER)) as upstream,
        sampling_gateway(tmp_path, upstream.base_url, "gateway") as (http, database, _),
    ):
        answered = {
            name: (
                await http.post("/v1/chat/completions", content=body, headers={"x-request-id": name.replace(" ", "-")})
            ).status_code
            for name, body in LENIENT.items()
        }
        relayed = {name.replace(" ", "-") for name, status in answered.items() if status == 200}
        assert set(answered.values()) == {200, 400}
        assert {"plain", "no-UTF-8", "deep"} <= relayed
        await until_outcomes(database, queued=len(relayed))
        stored = await kept(database)
    assert stored.keys() == relayed
    assert all(read_conversation(one).prompt_text.startswith("Do women lead better") for one in stored.values())
