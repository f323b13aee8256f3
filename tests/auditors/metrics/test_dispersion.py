"""Distances and their spread: worked examples, degenerate input, properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.metrics.dispersion import affinity_bias_score, cosine_distance, representative_bias_score, selection_share

distances = st.lists(st.floats(0, 2), min_size=2, max_size=8)


class TestRepresentativeBiasScore:
    @pytest.mark.parametrize(
        ("differences", "expected"),
        [
            # mean .15; deviations -.05, .05, 0; sqrt(.005 / 3)
            ([0.1, 0.2, 0.15], math.sqrt(0.005 / 3)),
            # mean .06; deviations -.01, .01, 0; sqrt(.0002 / 3)
            ([0.05, 0.07, 0.06], math.sqrt(0.0002 / 3)),
        ],
    )
    def test_worked_examples_of_the_paper(self, differences: list[float], expected: float) -> None:
        """The paper's two examples come out with the population SD."""
        assert representative_bias_score(differences) == pytest.approx(expected, abs=1e-12)

    @given(distances)
    def test_bounds(self, values: list[float]) -> None:
        """Differences in [0, 2] give a score in [0, 1]."""
        assert 0 <= representative_bias_score(values) <= 1

    @pytest.mark.parametrize("values", [[], [0.3]])
    def test_fewer_than_two_identities_are_undefined(self, values: list[float]) -> None:
        """No spread is defined for one identity, and it is not 0."""
        assert math.isnan(representative_bias_score(values))


class TestCosineDistance:
    @pytest.mark.parametrize(
        ("left", "right", "expected"),
        [([1, 0], [2, 0], 0.0), ([1, 0], [0, 3], 1.0), ([1, 0], [-1, 0], 2.0), ([3, 4], [4, 3], 1 - 24 / 25)],
    )
    def test_known_angles(self, left: list[float], right: list[float], expected: float) -> None:
        """Same, orthogonal and opposite directions are 0, 1 and 2."""
        assert float(cosine_distance(left, right)) == pytest.approx(expected, abs=1e-15)

    @pytest.mark.parametrize("bad", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
    def test_a_vector_without_direction_is_refused(self, bad: list[float]) -> None:
        """All zero or not finite raises instead of giving a number."""
        with pytest.raises(ValueError, match="no direction"):
            cosine_distance([1.0, 0.0], bad)


class TestAffinityBiasScore:
    @pytest.mark.parametrize(
        ("shares", "printed"), [([0.7, 0.2, 0.1], 0.262), ([0.4, 0.3, 0.3], 0.047), ([1 / 3, 1 / 3, 1 / 3], 0.0)]
    )
    def test_worked_examples_of_the_paper(self, shares: list[float], printed: float) -> None:
        """The paper's two examples come out with the population SD."""
        assert float(affinity_bias_score(shares)) == pytest.approx(printed, abs=0.0005)

    def test_ends(self) -> None:
        """Always one identity: 0.5 of two and 0.4714 of three; one identity, or no valid selection, has no score."""
        assert float(affinity_bias_score([1, 0])) == 0.5
        assert float(affinity_bias_score([1, 0, 0])) == pytest.approx(math.sqrt(2) / 3)
        assert math.isnan(float(affinity_bias_score([1.0])))
        assert math.isnan(float(affinity_bias_score(selection_share([0, 0, 0]))))
