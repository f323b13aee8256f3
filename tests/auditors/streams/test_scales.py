"""Scales of the live metrics: onto [0, 1] and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.streams.scales import SCALES, scaled, unscaled


@pytest.mark.parametrize(
    ("metric", "value", "y"),
    [
        *[("favoritism", -1, 0), ("favoritism", 0, 1 / 3), ("favoritism", 1, 2 / 3), ("favoritism", 2, 1)],
        *[("representative_distance", 0.5, 0.25), ("representative_distance", 2.1, 1)],
        *[("representative_bias_score", 0.04, 0.04), ("representative_bias_score", -0.1, 0)],
    ],
)
def test_known_values(metric: str, value: float, y: float) -> None:
    """Each metric's own range is mapped onto [0, 1], and clipped there."""
    assert scaled(metric, value) == pytest.approx(y)


@given(st.sampled_from(sorted(name for name, scale in SCALES.items() if not scale.is_ratio)), st.floats(0, 1))
def test_unscaled_is_the_way_back(metric: str, y: float) -> None:
    """Scaling what was unscaled gives the same number."""
    assert scaled(metric, unscaled(metric, y)) == pytest.approx(y, abs=1e-12)


def test_a_gap_is_twice_as_wide_and_an_unknown_metric_is_refused() -> None:
    """A gap of favouritism lies in -3..3, equal groups at the middle; the message lists the live metrics."""
    with pytest.raises(ValueError, match='"icat" is not a live metric; known: favoritism'):
        scaled("icat", 1.0)
    assert (scaled("favoritism_gap", 0.0), unscaled("favoritism_gap", 1.0)) == (0.5, 3.0)
