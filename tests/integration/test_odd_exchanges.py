"""Exchanges of every shape that apps send, stored and given to all five live auditors: measured, or refused by name."""

import time
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.judge import SPEAKS_TO_THE_JUDGE
from auditors.text.identity import IDENTITIES, with_identity
from auditors.types import Exchange
from gateway.store import exchanges, tables
from gateway.store.database import Database
from tests.auditors.text.test_fencing import CANARIES
from tests.support.auditors.exchanges import events
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.simulated import running_simulator
from tests.support.store.made import exchange
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")

SISTER = "Write a letter for my sister, please."
ANSWER = "Here is the letter that you asked me for, for her."
AUDITORS = ("judge", "embedding", "affinity", "counterfactual", "refusal")
TEN_MEGABYTES = 10_000_000


def outcome(measured: str = "", not_auditable: str = "", rejected: str = "") -> dict[str, str]:
    """What each auditor must have made of an exchange, by the initials of the auditors."""
    found = {}
    for name in AUDITORS:
        for initials, said in ((measured, "audited"), (not_auditable, "not_auditable"), (rejected, "rejected")):
            if name[0] in initials:
                found[name] = said
    return found


def asked(messages: Any, reply: Any = ANSWER, **request: Any) -> dict[str, Any]:
    """A chat; `messages` may be just the user's content, `reply` just the answer's."""
    turns = (
        messages if isinstance(messages, list) and "role" in messages[0] else [{"role": "user", "content": messages}]
    )
    message = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return shaped("/v1/chat/completions", {"messages": turns, **request}, {"choices": [choice]})


def shaped(endpoint: str, request: dict[str, Any], response: dict[str, Any] | bytes) -> dict[str, Any]:
    is_stream = isinstance(response, bytes)
    return {
        "endpoint": endpoint,
        "stream": is_stream,
        "content_type": "text/event-stream" if is_stream else "application/json",
        "request_body": msgspec.json.encode({"model": "simulated", **request}),
        "response_body": response if isinstance(response, bytes) else msgspec.json.encode(response),
    }


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
WITH_TOOLS = [
    {"role": "user", "content": SISTER},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "She likes tea."},
]
LOOSE = {"role": "tool", "content": "She likes tea."}
IMAGE = [
    {"type": "text", "text": SISTER},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
]
CHOICES = [{"index": i, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"} for i in range(3)]
CUT = events(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ANSWER}}]},
    {"choices": [{"index": 0, "delta": {"content": " And"}}]},
)
SAID = [{"type": "output_text", "text": ANSWER}]
CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "plain": (asked(SISTER), outcome("jeacr")),
    "arabic": (asked("اكتب رسالة إلى أختي من فضلك", "هذه هي الرسالة التي طلبتها."), outcome("jeacr")),
    "chinese": (asked("请为我妹妹写一封信。", "这是你要的信。"), outcome("jeacr")),
    "hindi and emoji": (asked("मेरी बहन के लिए 💌 लिखो 🏳️‍🌈", "यह रहा पत्र 💌"), outcome("jeacr")),
    "marks and controls": (
        asked("\u202eW\u0301r\u200bite\x00 for\ufeff my sister\U000e0041", ANSWER),
        outcome("jeacr"),
    ),
    "orders to the judge": (asked(SISTER, f"{ANSWER} {CANARIES[0]}"), outcome("jeacr")),
    "lone surrogate": (asked(SISTER) | {"request_body": b'{"messages": "\\ud800"}'}, outcome("", "jeacr")),
    "tools offered": (asked(SISTER, tools=TOOLS, tool_choice="auto"), outcome("jeacr")),
    "tool results": (asked(WITH_TOOLS, tools=TOOLS), outcome("jeacr")),
    "a tool's result without an id": (asked([*WITH_TOOLS, LOOSE], tools=TOOLS), outcome("jr", "eac")),
    "tool call as answer": (
        asked(SISTER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, tools=TOOLS),
        outcome("c", "jear"),
    ),
    "functions of old": (asked(SISTER, functions=[TOOLS[0]["function"]]), outcome("jr", "eac")),
    "image": (asked(IMAGE), outcome("jr", "eac")),
    "three choices": (
        shaped(
            "/v1/chat/completions", {"n": 3, "messages": [{"role": "user", "content": SISTER}]}, {"choices": CHOICES}
        ),
        outcome("jeacr"),
    ),
    "cut stream": (
        shaped("/v1/chat/completions", {"stream": True, "messages": [{"role": "user", "content": SISTER}]}, CUT),
        outcome("jacr", "e"),
    ),
    "ten megabytes": (asked("All of this is noise. " * (TEN_MEGABYTES // 22) + SISTER), outcome("jcr", "ea")),
    "ten megabytes of one word": (asked("sister" * (TEN_MEGABYTES // 6)), outcome("jcr", "ea")),
    "completions": (
        shaped("/v1/completions", {"prompt": SISTER}, {"choices": [{"index": 0, "text": ANSWER}]}),
        outcome("jr", "eac"),
    ),
    "responses": (
        shaped(
            "/v1/responses",
            {"input": SISTER},
            {"status": "completed", "output": [{"type": "message", "content": SAID}]},
        ),
        outcome("jeacr"),
    ),
    "earlier responses": (
        shaped(
            "/v1/responses",
            {"input": SISTER, "previous_response_id": "r0"},
            {"status": "completed", "output": [{"type": "message", "content": SAID}]},
        ),
        outcome("jr", "eac"),
    ),
    "a tool of the server's own": (
        shaped(
            "/v1/responses",
            {"input": [{"type": "web_search_call", "id": "w1"}, {"role": "user", "content": SISTER}]},
            {"status": "completed", "output": [{"type": "message", "content": SAID}]},
        ),
        outcome("jr", "eac"),
    ),
    "messages": (
        shaped(
            "/v1/messages",
            {"max_tokens": 50, "system": "Be kind.", "messages": [{"role": "user", "content": SISTER}]},
            {"content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn"},
        ),
        outcome("jeacr"),
    ),
}
NOTES = {
    "tool results": ["tool call"],
    "a tool's result without an id": ["tool call"],
    "a tool of the server's own": ["tool call"],
    "image": ["image"],
    "three choices": ["further choices"],
    "cut stream": ["stream cut off"],
    "ten megabytes": ["cut for the judge"],
    "earlier responses": ["earlier turns elsewhere"],
    "orders to the judge": [SPEAKS_TO_THE_JUDGE],
}
"""What the judge's measurements must say about the exchange."""


async def audited(database: Database, upstream: str, batch: list[Exchange]) -> dict[str, dict[str, str]]:
    """What each auditor made of each exchange, by request id: "audited" or the kind of failure."""
    probing = {"enabled": True, "rate": 1.0, "timeout_seconds": 60, "token_budget_per_minute": 10**9}
    sections = {
        "judge": {"model": "simulated-judge"},
        "embedding": {"model": "simulated-embedder", "base_url": upstream, "timeout_seconds": 60},
        "refusal": {"enabled": True},
        "affinity": probing,
        "counterfactual": probing,
    }
    async with auditing(config_for(database.url, upstream, auditors=sections)):
        await exchanges.insert_batch(database, batch, {("other", "queued"): len(batch)})

        async def is_done() -> bool:
            waiting, _ = await exchanges.backlog(database)
            return waiting == 0

        await until(is_done, within_seconds=150)
    names = {one.id: one.request_id for one in batch}
    found: dict[str, dict[str, str]] = {name: {} for name in names.values()}
    columns = tables.exchange_audits.c
    async with database.read() as connection:
        rows = await connection.execute(sa.select(columns.exchange_id, columns.auditor, columns.failure_kind))
        for exchange_id, auditor, failure in rows:
            found[names[exchange_id]][auditor] = failure or "audited"
    return found


def stored(name: str, fields: dict[str, Any]) -> Exchange:
    """Old enough to be taken up at once, as no job speaks of it."""
    return exchange(request_id=name, served_model="simulated", received_at=time.time() - 60, **fields)


async def test_every_shape_is_measured_or_refused_by_name(database: Database) -> None:
    """Each of five auditors says "audited" or why not; none fails inside, and what was left out is noted."""
    batch = [stored(name, fields) for name, (fields, _) in CASES.items()]
    async with running_simulator() as upstream:
        found = await audited(database, upstream, batch)
    assert found == {name: expected for name, (_, expected) in CASES.items()}
    noted: dict[str, list[str]] = {}
    for one in await scores_of(database, auditor="judge", limit=1000):
        noted[one.exchange.request_id] = one.detail.get("notes", [])
    assert {name: notes for name, notes in noted.items() if notes} == NOTES


async def test_a_template_that_rejects_an_identity_sentence(database: Database) -> None:
    """The model answers people and not identities: what needs one is counted as rejected, the rest is measured."""

    def script(question: Asked) -> Reply:
        if question.path == "/v1/embeddings":
            vectors = [{"index": i, "embedding": [1.0, float(i)]} for i in range(len(question.json["input"]))]
            return Reply(msgspec.json.encode({"object": "list", "data": vectors}))
        if "response_format" in question.json:
            return chat('{"refused": false, "findings": []}')
        said = "\n".join(str(message["content"]) for message in question.json.get("messages", ()))
        if any(with_identity(identity, "") in said for identity in IDENTITIES):
            return Reply(b'{"error": {"message": "conversation roles must alternate", "code": 400}}', status=400)
        return chat(ANSWER)

    async with scripted_server(script) as server:
        found = await audited(database, server.base_url, [stored("plain", asked(SISTER))])
    assert found == {"plain": outcome("jcr", rejected="ea")}
    assert await scores_of(database, auditor="embedding") == []
    assert await scores_of(database, auditor="affinity") == []
