"""Which conversation a request belongs to: the same through all of its turns, and another for another."""

import functools
import json
import math
from typing import Any

import pytest

from gateway.config.loading import validate
from gateway.features.mitigation.arms import unit_of
from gateway.features.mitigation.policies import LONGEST_TEXT, MOST_TURNS, Assignment, Policies, Policy, conversation_of
from gateway.proxy.headers import RequestHead

SECRET = b"sixteen bytes at least"
CHAT = "/v1/chat/completions"
HELLO = {"role": "user", "content": "Hello"}
LATER = [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Who are you?"}]


def of(endpoint: str = CHAT, **body: Any) -> list[bytes] | None:
    return conversation_of(json.dumps({"model": "m", **body}).encode(), endpoint)


def parts(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **more}]


SAME: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "grown": (CHAT, [{"messages": [HELLO]}, {"messages": [HELLO, *LATER]}, {"messages": [HELLO, *LATER, *LATER]}]),
    "a system prompt with the time": (
        CHAT,
        [{"messages": [{"role": "system", "content": f"It is {hour}:00."}, HELLO]} for hour in (8, 9)],
    ),
    "a mark that wanders": (
        "/v1/messages",
        [
            {"messages": [{"role": "user", "content": parts("Hello", cache_control={"type": "ephemeral"})}]},
            {"messages": [{"role": "user", "content": parts("Hello")}, *LATER]},
            {"messages": [HELLO, *LATER]},
        ],
    ),
    "other settings": (CHAT, [{"messages": [HELLO], "temperature": 0}, {"messages": [HELLO], "stream": True}]),
    "text or list": ("/v1/responses", [{"input": "Hé"}, {"input": [{"role": "user", "content": "Hé"}, *LATER]}]),
    "an id": (
        "/v1/responses",
        [{"input": "a", "conversation": "conv_1"}, {"input": "b", "conversation": {"id": "conv_1"}}],
    ),
    "long": (CHAT, [{"messages": [{"role": "user", "content": "x" * 200_000}, *more]} for more in ([], LATER)]),
}
DIFFERENT: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "beginnings": (CHAT, [{"messages": [HELLO]}, {"messages": [{**HELLO, "content": "Good day"}]}]),
    "users": (CHAT, [{"messages": [HELLO], "user": name} for name in ("a", "b")] + [{"messages": [HELLO]}]),
    "cache keys": (CHAT, [{"messages": [HELLO], "prompt_cache_key": name} for name in ("a", "b")]),
    "members": (CHAT, [{"messages": [HELLO], "user": "a"}, {"messages": [HELLO], "prompt_cache_key": "a"}]),
    "users of /v1/messages": ("/v1/messages", [{"messages": [HELLO], "metadata": {"user_id": n}} for n in ("a", "b")]),
    "ids": ("/v1/responses", [{"input": "a", "conversation": f"conv_{n}"} for n in (1, 2)]),
    "pictures": (
        CHAT,
        [
            {
                "messages": [
                    {"role": "user", "content": [*parts("What?"), {"type": "image_url", "image_url": {"url": u}}]}
                ]
            }
            for u in ("data:a", "data:b")
        ],
    ),
    "cuts": (
        CHAT,
        [{"messages": [{"role": "user", "content": parts(a) + parts(b)}]} for a, b in (["ab", "c"], ["a", "bc"])],
    ),
    "long": (
        CHAT,
        [
            {"messages": [{"role": "user", "content": start + "x" * LONGEST_TEXT + end}]}
            for start, end in ("ab", "ac", "bb")
        ],
    ),
}
UNKNOWN: dict[str, tuple[str, bytes]] = {
    "prompts": ("/v1/completions", b'{"prompt": "Hello"}'),
    "answers elsewhere": ("/v1/responses", b'{"input": "b", "previous_response_id": "resp_1"}'),
    "no user": (CHAT, b'{"messages": [{"role": "system", "content": "Hello"}]}'),
    "no messages": (CHAT, b"{}"),
    "an empty input": ("/v1/responses", b'{"input": ""}'),
    "no list": (CHAT, b'{"messages": "Hello"}'),
    "no turn": (CHAT, b'{"messages": ["Hello"]}'),
    "no JSON": (CHAT, b"\x1f\x8b\x08"),
    "no text": (CHAT, b'{"messages": [{"role": "user", "content": "\\ud800"}]}'),
    "nested deeply": (CHAT, b'{"messages": [{"role": ' + b"[" * 100_000),
    "too many turns": (CHAT, json.dumps({"messages": [HELLO] * (MOST_TURNS + 1)}).encode()),
}


@pytest.mark.parametrize(("endpoint", "bodies"), SAME.values(), ids=SAME)
def test_turns_of_one(endpoint: str, bodies: list[dict[str, Any]]) -> None:
    """However a conversation grows, and however its first message is written, it stays the same."""
    identities = [of(endpoint, **body) for body in bodies]
    assert identities[0] is not None
    assert all(identity == identities[0] for identity in identities)


@pytest.mark.parametrize(("endpoint", "bodies"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_ones(endpoint: str, bodies: list[dict[str, Any]]) -> None:
    """Another beginning, user or id is another conversation."""
    identities = [of(endpoint, **body) for body in bodies]
    assert all(identities)
    assert len({str(identity) for identity in identities}) == len(bodies)


@pytest.mark.parametrize(("endpoint", "body"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_told(endpoint: str, body: bytes) -> None:
    """Nothing says which conversation it is, so it is none."""
    assert conversation_of(body, endpoint) is None


@functools.cache
def policies(**keys: Any) -> tuple[Policies, Policy]:
    config = validate({"mitigation": [{"name": "p", "instruction": "abstract", "share": 0.3, **keys}]})
    listed = Policies(config, SECRET)
    return listed, listed.all[0]


def assigned(number: int, exchange: int, *, key: str | None = None, session: str = "", **keys: Any) -> Assignment:
    """Where turn `exchange` of a conversation is assigned to."""
    listed, policy = policies(**keys)
    body = json.dumps({"messages": [{"role": "user", "content": f"Question {number}"}, *LATER * exchange]}).encode()
    head = RequestHead([(b"x-session-id", session.encode())] if session else [])
    return listed.assign(policy, CHAT, key=key, lines=head.lines, content=body, exchange_id=f"{exchange:032x}")


def test_the_arm_belongs_to_the_conversation() -> None:
    """All turns of one are in one arm; `share` of the conversations are treated; keys and policies draw apart."""
    arms = []
    for number in range(400):
        turns = {assigned(number, exchange) for exchange in range(3)}
        assert len(turns) == 1
        arms.append(turns.pop())
    n_treated = sum(assignment.arm == "treated" for assignment in arms)
    assert abs(n_treated - 120) < 5 * math.sqrt(400 * 0.3 * 0.7)
    assert len({assignment.unit for assignment in arms}) == 400
    for other in ({"key": "app"}, {"name": "q"}):
        apart = [assigned(number, 0, **other) for number in range(400)]
        both = sum(a.arm == b.arm == "treated" for a, b in zip(arms, apart, strict=True))
        assert both < 0.9 * n_treated
        assert not {a.unit for a in arms} & {a.unit for a in apart}


def test_a_request_by_itself() -> None:
    """With unit = "request", and where no conversation can be told, each exchange is drawn by its own id."""
    for keys in ({"unit": "request"}, {}):
        listed, policy = policies(**keys)
        body = b'{"prompt": "Hello"}'
        drawn = [
            listed.assign(policy, "/v1/completions", key=None, lines=[], content=body, exchange_id=f"{n:032x}")
            for n in range(40)
        ]
        assert {one.arm for one in drawn} == {"treated", "control"}
        assert {one.unit for one in drawn} == {None}
    assert {assigned(1, exchange, unit="request").unit for exchange in range(3)} == {None}


def test_a_header_names_it() -> None:
    """Where it is configured and sent it alone decides; without it the conversation goes by how it began."""
    by_header = {"conversation_header": "X-Session-Id"}
    assert assigned(1, 0, session="s", **by_header) == assigned(2, 5, session="s", **by_header)
    assert assigned(1, 0, session="s", **by_header).unit != assigned(1, 0, session="t", **by_header).unit
    assert assigned(1, 0, **by_header) == assigned(1, 4, **by_header)
    assert assigned(1, 0, session="s", key="a", **by_header).unit != assigned(1, 0, session="s", **by_header).unit


def test_versions() -> None:
    """Drawn for conversations it is another version, known by its first sign; where nothing is drawn it is not."""
    by_request, by_conversation = policies(unit="request")[1].version, policies()[1].version
    assert (by_request, by_conversation) == ("2d41746958fa", "ub1e5a4c283c")
    assert policies(conversation_header="x-session-id")[1].version not in (by_request, by_conversation)
    assert policies(share=1.0)[1].version == policies(share=1.0, unit="request")[1].version
    exchange_id = "0" * 16 + "1" * 16
    assert (unit_of(exchange_id, by_conversation), unit_of(exchange_id, by_request)) == ("1" * 16, None)
