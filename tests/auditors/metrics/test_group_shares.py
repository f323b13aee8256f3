"""Shares by group with each group's own error rates: cases worked by hand, symmetry, reasons."""

import numpy as np
import pytest

from benchmarks.lab.metrics.error_rates import NOT_LABELLED, Judged, Labelled, share_difference, shares_by_group
from tests.support.presence import present

PEOPLE = [True] * 100 + [False] * 100
LENIENT = [True] * 90 + [False] * 10 + [True] * 40 + [False] * 60
STRICT = [True] * 60 + [False] * 40 + [True] * 5 + [False] * 95
"""Sensitivity .9 and specificity .6; .6 and .95."""


def labelled(together: bool = False) -> Labelled:
    """Two groups, of exchanges of their own or each pair of one exchange."""
    clusters = [*range(200), *range(200)] if together else range(400)
    return Labelled(PEOPLE * 2, LENIENT + STRICT, ["a"] * 200 + ["b"] * 200, list(clusters))


def judged(positive_a: int, positive_b: int, n: int = 1000, together: bool = False) -> Judged:
    said = [k < positive for positive in (positive_a, positive_b) for k in range(n)]
    clusters = [*range(n), *range(n)] if together else range(2 * n)
    return Judged(said, ["a"] * n + ["b"] * n, list(clusters))


def test_each_group_by_its_own_rates() -> None:
    """(.5 + .6 - 1) / .5 = .2 and (.16 + .95 - 1) / .55 = .2: the judge sees .34 between them, people nothing."""
    found = shares_by_group(labelled(), judged(500, 160))
    difference = share_difference(found["a"], found["b"])

    assert (found["a"].judged, found["b"].judged) == (0.5, 0.16)
    assert found["a"].corrected.value == pytest.approx(0.2)
    assert found["b"].corrected.value == pytest.approx(0.2)
    assert difference.value == pytest.approx(0.0)
    assert difference.interval is not None
    assert difference.interval.lower < 0.0 < difference.interval.upper


def test_errors_that_groups_share_cancel() -> None:
    """The same judge, labels and judgements under two names, of the same exchanges: their difference is known."""
    same = Labelled(PEOPLE * 2, LENIENT * 2, ["a"] * 200 + ["b"] * 200, [*range(200), *range(200)])
    found = shares_by_group(same, judged(500, 500, together=True))
    difference = share_difference(found["a"], found["b"])

    assert difference.interval is not None
    assert difference.interval.upper - difference.interval.lower < 0.06
    apart = shares_by_group(same._replace(clusters=np.arange(400)), judged(500, 500))
    interval = present(share_difference(apart["a"], apart["b"]).interval)
    assert interval.upper - interval.lower > 0.2


def test_where_labels_of_a_group_do_not_do_it_says_so() -> None:
    """No labels, few of a kind, a judge no better than chance about it: never the rates of the other groups."""
    few = [True] * 35 + [False] * 5
    blind = [True, False] * 100
    labels = Labelled(
        [*PEOPLE, *few, *PEOPLE],
        [*LENIENT, *few, *blind],
        ["a"] * 200 + ["few"] * 40 + ["blind"] * 200,
        list(range(440)),
    )
    groups = ["a", "few", "blind", "none"]
    found = shares_by_group(
        labels, Judged([True, False] * 80, [g for g in groups for _ in range(40)], list(range(160)))
    )

    assert found["a"].corrected.value is not None
    assert found["few"].corrected.reason == "negative labels of 5 clusters are too few"
    assert "no better than chance" in (found["blind"].corrected.reason or "")
    assert found["none"].corrected.reason == NOT_LABELLED
    assert share_difference(found["a"], found["none"]).reason == f"none: {NOT_LABELLED}"
