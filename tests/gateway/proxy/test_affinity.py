"""Prefix-aware routing: which requests stay together, what moves when an upstream goes, and how much one may get."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.proxy.affinity import Affinity
from gateway.proxy.headers import RequestHead
from gateway.proxy.upstreams import Upstream, Upstreams

KEYS = 20_000


def affinity(**balancing: Any) -> Affinity:
    return Affinity(validate({"balancing": {"policy": "consistent_hash", **balancing}}).balancing)


def upstreams(*weights: float) -> list[Upstream]:
    listed = [
        {"name": f"up{n}", "base_url": "http://h", "models": ["m"], "weight": weight}
        for n, weight in enumerate(weights)
    ]
    return Upstreams(validate({"upstreams": listed})).all


def keys(n: int) -> list[int]:
    rng = random.Random(7)
    return [rng.getrandbits(64) for _ in range(n)]


def chat(system: str, user: str, **fields: Any) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return msgspec.json.encode({**fields, "model": "m", "messages": messages})


def test_one_beginning_has_one_key() -> None:
    """A system prompt longer than the prefix decides, whatever follows it and whatever stands before the messages."""
    routing, head = affinity(prefix_bytes=256), RequestHead([])
    system = "You are a helpful assistant. " * 20
    one = routing.key(head, chat(system, "first question"))

    assert one == routing.key(head, chat(system, "another", temperature=0.5))
    assert one != routing.key(head, chat("Be brief. " + system, "first question"))


def test_header_comes_before_the_prompt() -> None:
    """With the header the body does not matter; without it, it does; a header of another name is no key."""
    routing = affinity(header="X-Session-Id")
    session, other = RequestHead([(b"x-session-id", b"s1")]), RequestHead([(b"x-session-idx", b"s1")])

    assert routing.key(session, chat("a", "b")) == routing.key(session, chat("c", "d"))
    assert routing.key(session, b"") == routing.key(session, chat("c", "d"))
    assert routing.key(other, chat("a", "b")) == routing.key(RequestHead([]), chat("a", "b"))


def test_what_belongs_nowhere_has_no_key() -> None:
    """Without a body, and with prefix_bytes = 0 without the header, the least loaded upstream gets the request."""
    assert affinity().key(RequestHead([]), b"") is None
    assert affinity(prefix_bytes=0).key(RequestHead([]), chat("a", "b")) is None


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 3), (1, 2, 5, 0.5)], ids=str)
def test_keys_are_spread_by_weight(weights: tuple[float, ...]) -> None:
    """Of 20,000 keys each upstream has its weight's share within 5 %."""
    routing, listed = affinity(), upstreams(*weights)
    counts = Counter(routing.choose(listed, key).name for key in keys(KEYS))

    for number, weight in enumerate(weights):
        assert counts[f"up{number}"] == pytest.approx(KEYS * weight / sum(weights), rel=0.05)


def test_an_upstream_that_goes_moves_its_own_keys_alone() -> None:
    """The keys of the others stay where they are; its own are spread over all that are left."""
    routing, listed = affinity(), upstreams(1, 1, 1, 1)
    before = {key: routing.choose(listed, key) for key in keys(KEYS)}
    gone, left = listed[1], [one for one in listed if one is not listed[1]]
    after = {key: routing.choose(left, key) for key in before}

    assert all(after[key] is at for key, at in before.items() if at is not gone)
    moved = Counter(after[key].name for key, at in before.items() if at is gone)
    assert min(moved.values()) > 0.9 * sum(moved.values()) / 3


def test_one_hot_key_is_held_to_its_bound() -> None:
    """120 requests of one key at once: no upstream has more than 1.25 times its share, the first has all of that."""
    routing, listed = affinity(max_load_ratio=1.25), upstreams(1, 1, 2)
    first = routing.choose(listed, 99)
    for _ in range(120):
        routing.choose(listed, 99).outstanding += 1

    bounds = {one.name: 1.25 * 120 * one.weight / 4 for one in listed}
    assert all(one.outstanding <= bounds[one.name] + 1 for one in listed)
    assert first.outstanding == pytest.approx(bounds[first.name], abs=1)


@pytest.mark.parametrize("header", ["authorization", "X-Biasgate-Tag", "two words", "x:y", ""])
def test_a_header_that_does_not_pass_on_is_refused(header: str) -> None:
    """The configuration says so in one line."""
    with pytest.raises(ConfigError, match=r"balancing\.header .* is not a header that reaches an upstream"):
        validate({"balancing": {"policy": "consistent_hash", "header": header}})
