"""Shares of keys: the level they are held to, what bursts and crowds do to a sample, and that estimates stay right."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.sampling.key_shares import FRESH_SECONDS, SMALLEST_FACTOR, WINDOW_DRAWS, KeyShares, ShareBoard, level

Traffic = Callable[[random.Random], Iterator[str]]


def mixed(**shares: float) -> Traffic:
    """Keys at random, by their shares."""

    def made(rng: random.Random) -> Iterator[str]:
        keys, weights = list(shares), list(shares.values())
        while True:
            yield rng.choices(keys, weights)[0]

    return made


def burst(rng: random.Random) -> Iterator[str]:
    """Three keys alike; from the 3,000th request on a fourth sends 19 of 20."""
    for number in range(10**9):
        yield "new" if number >= 3000 and rng.random() < 0.95 else f"old-{rng.randrange(3)}"


def crowd(rng: random.Random) -> Iterator[str]:
    """One key sends half of all, ten thousand others share the rest."""
    while True:
        yield "flood" if rng.random() < 0.5 else f"key-{rng.randrange(10_000)}"


def bursts_in_turn(rng: random.Random) -> Iterator[str]:
    """Every 400 requests another of five keys sends nine of ten."""
    for number in range(10**9):
        yield f"key-{number // 400 % 5}" if rng.random() < 0.9 else f"key-{rng.randrange(5)}"


class TestLevel:
    def test_it_is_what_it_says(self) -> None:
        """Held to the level, no key has more than the share, and the largest one has just that."""
        rng = random.Random(1)
        for _ in range(300):
            share = rng.choice((0.1, 0.3, 0.5, 0.9))
            counts = [rng.expovariate(1.0) ** 3 + 0.01 for _ in range(rng.randrange(1, 40))]
            held = [min(count, level(counts, share)) for count in counts]
            allowed = max(share, 1 / len(counts)) * sum(held)
            assert max(held) <= allowed * (1 + 1e-9)
            assert max(held) == pytest.approx(allowed) or level(counts, share) == max(counts)


def sample(traffic: Traffic, share: float, count: int, seed: int, rate: float) -> tuple[dict[str, float], float, float]:
    """Keys to exchanges drawn, the estimated mean of the 0/1 value of all requests, and their true mean."""
    rng = random.Random(seed)
    shares, kept = KeyShares(share), dict[str, float]()
    estimated = true = 0.0
    for _, key in zip(range(count), traffic(rng), strict=False):
        y = float(rng.random() < (0.6 if key in ("flood", "new") else 0.1))
        true += y
        drawn = rng.random()
        if drawn < rate and drawn < rate * (factor := shares.draw(key)):
            kept[key] = kept.get(key, 0.0) + 1
            estimated += y / (rate * factor)
    return kept, estimated / count, true / count


@pytest.mark.parametrize(
    ("traffic", "share"),
    [
        (mixed(flood=0.95, quiet=0.05), 0.5),
        (mixed(flood=0.95, a=0.03, b=0.02), 0.4),
        (mixed(flood=0.6, other=0.3, a=0.04, b=0.03, c=0.03), 0.25),
        (crowd, 0.2),
    ],
    ids=["two keys", "three keys", "two large keys", "ten thousand keys"],
)
def test_a_flood_has_no_more_than_its_share(traffic: Traffic, share: float) -> None:
    """Whoever else there is, at any rate: what one key adds to the sample is its share of it, and not much less."""
    for rate, count in ((1.0, 6000), (0.2, 20_000)):
        kept, _, _ = sample(traffic, share, count, 5, rate)
        assert share * 0.8 < kept["flood"] / sum(kept.values()) < share * 1.12


def test_a_burst_fills_no_more_than_what_the_window_holds() -> None:
    """A key that appears at once with 19 of 20 requests has its share again after a window, all in all."""
    kept, _, _ = sample(burst, 0.5, 30_000, 3, 1.0)
    old = sum(n for key, n in kept.items() if key != "new")
    assert kept["new"] <= old * 1.05
    early, _, _ = sample(burst, 0.5, 3000 + 2 * WINDOW_DRAWS, 3, 1.0)
    assert early["new"] < 1.6 * WINDOW_DRAWS


@pytest.mark.statistical
@pytest.mark.parametrize(
    "traffic", [mixed(flood=0.95, quiet=0.05), burst, crowd, bursts_in_turn], ids=["flood", "burst", "crowd", "turns"]
)
def test_estimates_stay_unbiased(traffic: Traffic) -> None:
    """The Horvitz-Thompson mean over 60 samples is the mean of all requests, though keys differ by .5 in theirs."""
    errors = []
    for seed in range(60):
        _, estimated, true = sample(traffic, 0.4, 5000, seed, 0.3)
        errors.append(estimated - true)
    mean = sum(errors) / len(errors)
    spread = (sum((one - mean) ** 2 for one in errors) / (len(errors) - 1)) ** 0.5
    assert abs(mean) < 3.3 * spread / len(errors) ** 0.5
    assert spread < 0.2


def test_a_lone_key_keeps_everything() -> None:
    """A share is one of several: who is alone is not lowered, and from a second key on it is."""
    shares = KeyShares(0.1)
    assert {shares.draw("only") for _ in range(3000)} == {1.0}
    shares.draw("second")
    factors = [shares.draw("only") for _ in range(50)]
    assert factors[-1] == SMALLEST_FACTOR
    assert shares.least == SMALLEST_FACTOR


def test_memory_is_bounded_however_many_keys_there_are() -> None:
    """No more keys are remembered than two windows hold draws."""
    shares = KeyShares(0.5)
    for number in range(20_000):
        shares.draw(f"key-{number}")
    assert len(shares.rates()) <= 2 * WINDOW_DRAWS
    assert not shares.factors


def test_no_key_is_lowered_by_being_counted_elsewhere_alone() -> None:
    """Two workers of which one has a key of its own hold it to its share of what both draw."""
    here, there = KeyShares(0.5), KeyShares(0.5)
    here._began = here._began_before = there._began_before = time.monotonic() - 10
    for _ in range(500):
        here.draw("flood")
    for number in range(50):
        there.draw(f"other-{number % 5}")
    assert here.draw("flood") == 1.0
    here.elsewhere, there.elsewhere = there.rates(), here.rates()
    for _ in range(50):
        factor = here.draw("flood")
    assert 50 / 500 / 2 * 0.8 < factor < 50 / 500 * 1.1  # lower than its share, as it had too much until then
    assert {there.draw("other-1") for _ in range(20)} == {1.0}


def test_workers_tell_each_other_their_rates(tmp_path: Path) -> None:
    """Each gets the sum of the others' rates, without those of workers that ended, or that died a while ago."""
    boards = [ShareBoard(tmp_path) for _ in range(3)]
    boards[0].exchange({"k": 1.0}, 0.0)
    boards[1].exchange({"k": 2.0, "": 4.0}, 0.0)
    (tmp_path / "odd.keys").write_bytes(b"\xc1")
    assert boards[2].exchange({"k": 8.0}, 1.0) == {"k": 3.0, "": 4.0}
    assert boards[0].exchange({}, 2.0) == {"k": 10.0, "": 4.0}
    boards[1].close()
    assert boards[0].exchange({}, 3.0) == {"k": 8.0}
    assert boards[0].exchange({}, FRESH_SECONDS + 1.0) == {}
