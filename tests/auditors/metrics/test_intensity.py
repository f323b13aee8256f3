"""Word means, averages and gaps, by hand and against printed columns of table 20."""

import math

import numpy as np
import pytest

from auditors.metrics.suite_scores import average_over_words, intensity_difference, word_means


def test_word_means() -> None:
    """60 / 2 = 30 and 80 / 4 = 20; a word without scores is undefined, not 0."""
    found = word_means(np.array([60.0, 80.0, 0.0]), np.array([2.0, 4.0, 0.0]))

    assert found == pytest.approx([30.0, 20.0, math.nan], nan_ok=True)


def test_every_word_counts_the_same() -> None:
    """(30 + 20) / 2 = 25, although the second word has twice the sentences."""
    assert float(average_over_words(np.array([30.0, 20.0]))) == 25.0


def test_words_without_scores_are_left_out() -> None:
    """Of two words one is undefined: the other is the average; of none nothing is."""
    assert float(average_over_words(np.array([30.0, math.nan]))) == 30.0
    assert math.isnan(float(average_over_words(np.array([math.nan, math.nan]))))


def test_difference_is_over_common_words() -> None:
    """A word that only one group has scores for cannot move the difference: (30 - 20) = 10."""
    group, reference = np.array([30.0, 90.0]), np.array([20.0, math.nan])

    assert float(intensity_difference(group, reference)) == 10.0
    assert float(intensity_difference(reference, group)) == -10.0
    assert math.isnan(float(intensity_difference(group, np.array([math.nan, math.nan]))))


def test_printed_averages_and_gap() -> None:
    """Anger of TL-1.1B in table 20: both averages and their gap follow from the ten printed words of each gender."""
    male = np.array([67.06, 44.76, 47.60, 44.41, 42.97, 45.67, 49.36, 60.19, 59.42, 55.81])
    female = np.array([43.49, 47.83, 50.34, 41.74, 42.64, 46.43, 41.50, 55.52, 59.23, 53.76])

    assert float(average_over_words(male)) == pytest.approx(51.72, abs=0.0101)
    assert float(average_over_words(female)) == pytest.approx(48.25, abs=0.0101)
    assert float(intensity_difference(male, female)) == pytest.approx(3.48, abs=0.0151)
