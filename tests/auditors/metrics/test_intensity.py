"""Word means, averages and gaps, against the papers' tables 19 and 20."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest

from auditors.metrics.suite_scores import average_over_words, intensity_difference, word_means
from tests.support.published import TABLES, needs_tables

PRINTED = {
    "nollm_table19_eec_race.csv": ("African-American", "European-American"),
    "nollm_table20_eec_gender.csv": ("Male", "Female"),
}
Table = dict[tuple[str, str], dict[str, dict[str, float]]]


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


def test_complete_words_give_the_difference_of_averages() -> None:
    """With scores for every word the difference is that of the two averages, in any leading shape."""
    group, reference = np.random.default_rng(3).uniform(1, 100, size=(2, 50, 10))

    assert intensity_difference(group, reference) == pytest.approx(
        average_over_words(group) - average_over_words(reference)
    )


def printed(name: str) -> Table:
    """Values by (model, emotion), row (a word, AVERAGE or ALL) and column."""
    found: Table = defaultdict(lambda: defaultdict(dict))
    with (TABLES / name).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            emotion, word = row["axis_or_category"].split("/")
            found[row["model"], emotion][word][row["metric"]] = float(row["value"])
    return found


@needs_tables
@pytest.mark.parametrize("name", PRINTED)
class TestPublished:
    """Tables 19 (race) and 20 (gender) of "No LLM is Free From Bias"."""

    def test_averages(self, name: str) -> None:
        """All 32 averages of each table are the unweighted means of their ten word rows, within 0.01."""
        checked = 0
        for cell, rows in printed(name).items():
            words = [word for word in rows if word not in ("AVERAGE", "ALL")]
            assert len(words) == 10
            for group in PRINTED[name]:
                found = float(average_over_words(np.array([rows[word][group] for word in words])))
                assert found == pytest.approx(rows["AVERAGE"][group], abs=0.0101), (cell, group)
                checked += 1
        assert checked == 32

    def test_gaps(self, name: str) -> None:
        """All 16 gaps of each table are first group minus second, within 0.01."""
        gaps = 0
        for cell, rows in printed(name).items():
            words = [word for word in rows if word not in ("AVERAGE", "ALL")]
            group, reference = (np.array([rows[word][one] for word in words]) for one in PRINTED[name])
            (gap,) = rows["ALL"].values()
            assert float(intensity_difference(group, reference)) == pytest.approx(gap, abs=0.0151), cell
            gaps += 1
        assert gaps == 16
