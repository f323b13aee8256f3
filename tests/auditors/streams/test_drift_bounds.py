"""The bounds that delays of the gap's detector are compared with: known laws, and the CUSUM against a simulation."""

import numpy as np
import pytest

from tests.support import drift_bounds as bounds
from tests.support.drift_bounds import Law


def coin(mean: float) -> Law:
    return Law((0.0, 1.0), (1.0 - mean, mean))


def test_the_nearest_coin_of_another_mean_is_that_coin() -> None:
    """Zeros and ones leave no choice; more values keep their total and get the wanted mean."""
    assert bounds.nearest_with_mean(coin(0.2), 0.12).shares == pytest.approx((0.88, 0.12))
    found = bounds.nearest_with_mean(Law((0.0, 0.5, 1.0), (0.5, 0.3, 0.2)), 0.3)
    assert (sum(found.shares), found.mean) == pytest.approx((1.0, 0.3))


def test_information_of_coins_by_hand() -> None:
    """Shares 80/20 of .1 and .2: the nearest common mean is .12, .8 * kl(.1, .12) + .2 * kl(.2, .12) = .00678 nats."""
    null = bounds.nearest_without_gap(coin(0.1), coin(0.2), 0.2)

    def kl(p: float, q: float) -> float:
        return float(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    assert [one.mean for one in null] == pytest.approx([0.12, 0.12], abs=1e-3)
    found = bounds.information(coin(0.1), coin(0.2), null, 0.2)
    assert found == pytest.approx(0.8 * kl(0.1, 0.12) + 0.2 * kl(0.2, 0.12), rel=1e-4)


@pytest.mark.statistical
def test_the_least_delay_is_that_of_a_simulated_cusum() -> None:
    """The Markov chain against 4,000 simulated runs without and with a gap; four standard errors are allowed."""
    others, group, threshold = coin(0.1), coin(0.3), 3.0
    null = bounds.nearest_without_gap(others, group, 0.2)
    shares, ratios = bounds.steps(others, group, null, 0.2)
    null_shares, _ = bounds.steps(*null, null, 0.2)

    for law in (null_shares, shares):
        found = cusum_run_lengths(law, ratios, threshold)
        error = found.std() / np.sqrt(len(found))
        assert bounds.mean_run_length(law, ratios, threshold) == pytest.approx(found.mean(), abs=4 * error)
    run_length = bounds.mean_run_length(null_shares, ratios, threshold)
    delay = bounds.mean_run_length(shares, ratios, threshold)
    assert bounds.least_delay(others, group, null, 0.2, run_length) == pytest.approx(delay, rel=0.01)


def cusum_run_lengths(shares: bounds.Floats, ratios: bounds.Floats, threshold: float) -> bounds.Floats:
    """Requests until each of 4,000 simulated CUSUMs reaches the threshold."""
    rng, sums, lengths, n = np.random.default_rng(59), np.zeros(4000), np.zeros(4000), 0
    while not lengths.all():
        n += 1
        sums = np.maximum(0.0, sums + rng.choice(ratios, size=4000, p=shares))
        lengths[(sums >= threshold) & (lengths == 0)] = n
    return lengths
