"""Sums by cluster, what is left out, and the plain rates beside the scores."""

from functools import partial

import numpy as np

from benchmarks.suites.common.counting import NO_REPLY, cluster_sums, rate
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.protocol import Item, Observation, Reply


def observed(item_id: str, cluster: str, status: str) -> Observation:
    item = Item(item_id=item_id, messages=(), axis="a", groups=(), cluster=cluster)
    return Observation(item, Reply(item_id=item_id, status=status))  # type: ignore[arg-type]  # literals above


MIXED = [observed("1", "y", "ok"), observed("2", "x", "refusal"), observed("3", "y", "error"), observed("4", "y", "ok")]


def test_sums_by_cluster() -> None:
    """Clusters are sorted; an error adds nothing, but its cluster stays."""
    clusters, sums = cluster_sums(MIXED, 2, lambda o: (o.reply.status == "ok", 1))

    assert clusters == ("x", "y")
    assert sums.tolist() == [[0, 1], [2, 2]]
    assert cluster_sums(MIXED[2:3], 2, lambda _: (1, 1))[1].tolist() == [[0, 0]]


def test_rate_is_a_share_with_an_interval_by_cluster() -> None:
    """10 of 40 replies are 25 %; of no reply it is undefined, not 0; of few clusters it has no interval."""
    cell = partial(Cell, clusters=tuple("abcdefghij"), unit="item", excluded={"error": 2})
    quarter = estimate(rate(cell, "refusal_rate", np.array([[2.0, 4.0]] * 5 + [[0.0, 4.0]] * 5)), seed=0)
    nothing = estimate(rate(cell, "refusal_rate", np.zeros((10, 2))), seed=0)

    few = estimate(rate(cell, "refusal_rate", np.array([[1.0, 4.0]] * 9 + [[0.0, 0.0]])), seed=0)

    assert (quarter.value, quarter.n, quarter.n_excluded, quarter.method) == (25.0, 40, 2, "cluster-wilson")
    assert (nothing.value, nothing.reason) == (None, NO_REPLY)
    assert (few.lower, few.reason) == (None, "no interval: 9 items to resample, fewer than 10")
