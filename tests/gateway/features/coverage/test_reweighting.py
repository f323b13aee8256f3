"""A suite's number weighted as the traffic: the planted mix comes out, and the interval holds what it claims."""

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.types import Estimate, Message
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.protocol import Item
from gateway.features.coverage.figures import Reweighted
from gateway.features.coverage.questions import Question, Questions
from gateway.features.coverage.resemblance import nearest
from gateway.features.coverage.reweighting import reweighted
from gateway.features.coverage.traffic import Compared, Prompt, Traffic
from tests.support.long import but_long, least_covered, repeated

TOPICS = 3
DIMENSIONS = 64
OWN = Estimate(metric="rate", value=50.0, n=400)


def near(rng: np.random.Generator, topic: int, n: int) -> NDArray[np.float32]:
    """Unit vectors about one topic: any two have a cosine of about 0.8."""
    rows = 0.06 * rng.standard_normal((n, DIMENSIONS))
    rows[:, topic] += 1.0
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def rate(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return 100 * sums[..., 0] / sums[..., 1]


def item(cluster: str, number: int) -> Item:
    return Item(
        item_id=f"{cluster}-{number}", messages=(Message("user", cluster),), axis="gender", groups=(), cluster=cluster
    )


def one(
    rng: np.random.Generator,
    *,
    mix: NDArray[np.float64],
    rates: NDArray[np.float64],
    per_topic: tuple[int, ...] = (60, 30, 10),
    n_prompts: int = 200,
    spread: float = 0.15,
    n_items: int = 4,
) -> Reweighted:
    """Traffic of this mix of topics, and a run whose clusters have rates around those of their topic."""
    topics = rng.choice(TOPICS, n_prompts, p=mix)
    vectors = np.concatenate([near(rng, int(topic), 1) for topic in topics])
    weights = np.where(rng.random(n_prompts) < 0.3, 5.0, 1.0)
    prompts = [Prompt(exchange_id=str(n), text="", weight=float(weight)) for n, weight in enumerate(weights)]
    traffic = Traffic(prompts, vectors)
    names = [f"{topic}/{n}" for topic, count in enumerate(per_topic) for n in range(count)]
    of = np.array([int(name[0]) for name in names])
    questions = np.concatenate([near(rng, int(topic), 1) for topic in of])
    asked = Questions(
        suite="s", version="1", data="embedded", n_items=len(names), chosen=[Question(name, name) for name in names]
    )
    compared = Compared(asked, questions, nearest(vectors, questions)[0])
    true = np.clip(rates[of] + spread * rng.uniform(-1.7, 1.7, len(of)), 0, 1)
    hits = rng.binomial(n_items, true).astype(np.float64)
    cell = Cell(
        metric="rate",
        clusters=tuple(names),
        sums=np.stack([hits, np.full(len(of), float(n_items))], axis=1),
        statistic=rate,
        unit="cluster",
        n=len(names) * n_items,
    )
    items = [item(name, n) for name in names for n in range(n_items)]
    return reweighted(cell, items, "run", "m", OWN, traffic, compared, 0.5, seed=int(rng.integers(1 << 30)))


def test_the_mix_of_the_traffic_comes_out() -> None:
    """A suite that asks mostly about the first topic, of users who ask about the last: their rate counts."""
    rng = np.random.default_rng(1)
    found = one(rng, mix=np.array([0.0, 0.2, 0.8]), rates=np.array([0.1, 0.5, 0.9]), per_topic=(60, 30, 30))

    assert found.value == pytest.approx(100 * (0.2 * 0.5 + 0.8 * 0.9), abs=7)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < 82 < found.upper
    assert found.n_clusters == 60
    assert 0.9 < found.represents <= 1.0
    assert found.reason is None


def test_too_little_of_either_side_is_no_number() -> None:
    """A few prompts, or a few clusters of the suite near to them, bear none."""
    rng = np.random.default_rng(2)
    rates = np.array([0.1, 0.5, 0.9])
    few_prompts = one(rng, mix=np.array([1.0, 0, 0]), rates=rates, n_prompts=6)
    few_clusters = one(rng, mix=np.array([0, 0, 1.0]), rates=rates, per_topic=(60, 30, 4))

    assert few_prompts.value is None
    assert (few_prompts.reason or "").startswith("not assessable: the prompts that resemble its questions are worth")
    assert few_clusters.value is None
    assert (few_clusters.reason or "").startswith("not assessable: its questions near to the traffic are worth")


@pytest.mark.statistical
@pytest.mark.parametrize("n_prompts", but_long([60, 300], quick=60))
@repeated(400, quick=40)
def test_the_interval_holds_the_truth(times: int, n_prompts: int) -> None:
    """95 % of the time, though the weights are estimated from the traffic."""
    mix, rates = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.8])
    truth = 100 * float(mix @ rates)
    held = 0
    for number in range(times):
        found = one(np.random.default_rng([7, number]), mix=mix, rates=rates, n_prompts=n_prompts)
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= truth <= found.upper

    assert held >= least_covered(times)
