"""How evenly requests are spread over the upstreams of a model: a simulation of upstreams that take time."""

import heapq
import random
from collections import Counter

import pytest

from gateway.config.loading import validate
from gateway.proxy.upstreams import Upstream, Upstreams

REQUESTS = 10_000


def upstreams(*weights: float, **ejection: float) -> Upstreams:
    listed = [
        {"name": f"up{n}", "base_url": "http://h", "models": ["m"], "weight": weight, "ejection": ejection}
        for n, weight in enumerate(weights)
    ]
    return Upstreams(validate({"upstreams": listed}))


def closed_loop(
    balancer: Upstreams, concurrency: int, *, slowness: dict[str, float] | None = None, ticks_every: int = 100
) -> Counter[str]:
    """Requests by upstream: `concurrency` clients each ask again when they are answered, after an exponential time."""
    rng, counts = random.Random(4), Counter[str]()
    in_flight: list[tuple[float, int, Upstream]] = []
    now = 0.0
    for number in range(REQUESTS):
        if len(in_flight) == concurrency:
            now, _, done = heapq.heappop(in_flight)
            done.outstanding -= 1
        chosen = balancer.choose("m")
        assert chosen is not None
        chosen.outstanding += 1
        counts[chosen.name] += 1
        seconds = rng.expovariate(1.0) * (slowness or {}).get(chosen.name, 1.0)
        heapq.heappush(in_flight, (now + seconds, number, chosen))
        if number % ticks_every == 0:
            balancer.tick(now)
    return counts


@pytest.mark.parametrize("concurrency", [1, 32, 200])
@pytest.mark.parametrize("weights", [(1, 1), (1, 2), (1, 3, 4)], ids=str)
def test_shares_follow_the_weights(weights: tuple[float, ...], concurrency: int) -> None:
    """Over 10,000 requests each of equally fast upstreams gets its weight's share within 5 %, busy or idle."""
    counts = closed_loop(upstreams(*weights), concurrency)

    for number, weight in enumerate(weights):
        fair = REQUESTS * weight / sum(weights)
        assert counts[f"up{number}"] == pytest.approx(fair, rel=0.05)


@pytest.mark.parametrize(("slowness", "least", "most"), [(4.0, 0.2, 0.3), (1e9, 0.0, 0.002)])
def test_a_slow_upstream_gets_less(slowness: float, least: float, most: float) -> None:
    """One that takes four times as long gets a quarter of the other's requests, one that never answers only a few."""
    counts = closed_loop(upstreams(1, 1), 32, slowness={"up0": slowness})

    assert least < counts["up0"] / counts["up1"] < most


def test_a_return_is_slow() -> None:
    """What comes back gets a tenth of the share at first, not what it has missed."""
    balancer = upstreams(1, 1)
    back = balancer.all[0]
    back.mark_down("test")
    closed_loop(balancer, 1)
    back.mark_up()
    now = 0.0
    balancer.tick(now)
    chosen = [balancer.choose("m") for _ in range(1100)]

    assert chosen.count(back) == pytest.approx(100, rel=0.05)


class TestEjected:
    def test_better_than_nobody(self) -> None:
        """When all that serve the model are ejected, they are used as if none were."""
        balancer = upstreams(1, 1)
        for upstream in balancer.all:
            upstream.outliers.eject(0.0)

        assert {balancer.choose("m") for _ in range(10)} == set(balancer.all)
        assert balancer.choose(None) is balancer.all[0]

    def test_but_not_down_ones(self) -> None:
        """An ejected upstream is still better than one that is down."""
        balancer = upstreams(1, 1)
        balancer.all[0].outliers.eject(0.0)
        balancer.all[1].mark_down("refused")

        assert balancer.choose("m") is balancer.all[0]
