"""Estimates of live streams: value, interval, what is missing, and what the gateway pays to show them."""

import subprocess
import sys

import pytest

from auditors.metrics.weighting import hajek_mean
from auditors.streams.estimates import bounds_of, estimate, has_left
from auditors.streams.state import StreamState, exclude, record
from tests.support.auditors.live_streams import KEY, SETTINGS, favoritism, interval_of, run


class TestEstimate:
    def test_an_empty_stream_has_no_value_but_a_reason(self) -> None:
        """Only refusals: null, never 0."""
        found = estimate(KEY, exclude(exclude(StreamState(), "refusal"), "refusal"))

        assert (found.value, found.lower, found.upper) == (None, None, None)
        assert found.reason == "no audit has given a value yet (2 without one)"
        assert (found.n, found.n_excluded, found.extra["excluded"]) == (0, 2, {"refusal": 2})

    def test_value_and_bounds_are_in_the_metrics_unit(self) -> None:
        """Means on 0..1 are mapped back to -1..2, with method and effective n named."""
        found = estimate(KEY, run([1.0, 0.0] * 5000))

        assert found.value == pytest.approx(0.5)
        assert -1 < interval_of(found).lower < 0.5 < interval_of(found).upper < 2
        assert found.method == "hajek, empirical-bernstein confidence sequence"
        assert found.extra["effective_n"] == pytest.approx(10_000)
        assert (found.axis, found.group, found.n) == ("gender", "man", 10_000)

    def test_a_mean_that_left_its_bounds_is_told(self) -> None:
        """After a jump the Hajek mean lies outside of the sequence, which then is no interval of it."""
        jumped = run([0.0] * 600 + [1.0] * 400)

        assert has_left(jumped)
        assert bounds_of(jumped).upper == pytest.approx(hajek_mean(jumped.sums))
        assert not has_left(run([1.0, 0.0] * 500))
        assert not has_left(StreamState())


class TestMissing:
    def test_missing_judgements_move_the_bounds_apart(self) -> None:
        """Fifty judgements that never came count as 0 below and as 1 above; the mean stays that of the others."""
        known = run([0.5] * 500)
        missed = known
        for _ in range(50):
            missed = record(missed, favoritism(None, "error"), 0.5, SETTINGS)
        before, after = estimate(KEY, known), estimate(KEY, missed)
        narrow, wide = interval_of(before), interval_of(after)

        assert after.value == before.value == pytest.approx(0.5)
        assert wide.lower < narrow.lower < 0.5 < narrow.upper < wide.upper
        assert (missed.n_missing, after.n_excluded) == (50, 50)


def test_estimates_need_no_numpy() -> None:
    """The gateway shows estimates, also corrected ones, without paying for numpy."""
    modules = "auditors.streams.estimates, auditors.streams.calibration, auditors.text.identity"
    check = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
