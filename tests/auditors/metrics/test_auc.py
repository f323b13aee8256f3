"""The area under the ROC curve with clusters: by hand, against pairs counted one by one, and how often it covers."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from auditors.metrics.ranking import clustered_auc
from tests.support.presence import present


def test_by_hand() -> None:
    """Three of four pairs are in order; a tie counts half."""
    found = present(clustered_auc([3, 1, 2, 0], [True, True, False, False], range(4)))
    assert found[0] == pytest.approx(0.75)
    assert found[1].lower < 0.75 < found[1].upper
    tied = present(clustered_auc([1, 1, 1, 1], [True, True, False, False], range(4)))
    assert tied[0] == pytest.approx(0.5)


def test_every_pair_in_order() -> None:
    """The area is 1, and its interval is Wilson's for as many trials as the rarer label has clusters."""
    found = present(clustered_auc([2, 3, 4, 0, 1], [True, True, True, False, False], range(5)))
    area, interval = found
    assert (area, interval.upper) == (1.0, 1.0)
    assert interval.lower == pytest.approx(2 / (2 + 1.959964**2), rel=1e-5)


@pytest.mark.simulation
def test_coverage_of_dependent_examples() -> None:
    """At least 91 % of 400 clustered draws cover the true area; treated as independent, fewer than 85 % do."""
    rng = np.random.default_rng(1)
    n_clusters, size, shift = 40, 6, 1.5
    clusters = np.repeat(np.arange(n_clusters), size)
    labels = clusters % 2 == 0

    def scores() -> NDArray[np.float64]:
        shared = rng.normal(size=n_clusters)[clusters]
        drawn: NDArray[np.float64] = shared + 0.5 * rng.normal(size=len(clusters)) + shift * labels
        return drawn

    truth = norm.cdf(shift / np.sqrt(2 * 1.25))
    covered = naive = 0
    for _ in range(400):
        drawn = scores()
        found, independent = clustered_auc(drawn, labels, clusters), clustered_auc(drawn, labels, range(len(drawn)))
        assert found is not None
        assert independent is not None
        covered += found[1].lower <= truth <= found[1].upper
        naive += independent[1].lower <= truth <= independent[1].upper
    assert covered / 400 > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 400)
    assert naive / 400 < 0.85
