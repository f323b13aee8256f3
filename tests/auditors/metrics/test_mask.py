"""LMS, SS and ICAT from replies, and printed cells of the paper."""

import math

import numpy as np
import pytest

from auditors.metrics.suite_scores import (
    idealised_cat_score,
    language_modelling_score,
    stereotype_score,
)


@pytest.mark.parametrize(
    ("stereotype", "meaningful", "total", "denominator", "expected"),
    [
        (66, 146, 255, "meaningful", (57.25, 45.21, 51.77)),  # StereoSet, TL-1.1B, gender, intrasentence
        (45, 75, 79, "meaningful", (94.94, 60.00, 75.95)),  # StereoSet, LL-8B, religion, intrasentence
        (9, 11, 346, "total", (3.18, 2.60, 0.17)),  # CrowS-Pairs, gender
        (176, 311, 346, "total", (89.88, 50.87, 88.33)),  # CrowS-Pairs, gender, LL-8B
    ],
)
def test_golden_cells(
    stereotype: int, meaningful: int, total: int, denominator: str, expected: tuple[float, ...]
) -> None:
    """Cells of the paper follow from whole counts, to the printed digit."""
    assert denominator in ("meaningful", "total")
    anti = meaningful - stereotype
    lms = language_modelling_score(stereotype, anti, total)
    ss = stereotype_score(stereotype, anti, total, denominator="total" if denominator == "total" else "meaningful")

    found = (float(lms), float(ss), float(idealised_cat_score(lms, ss)))

    assert found == pytest.approx(expected, abs=0.01)


def test_every_reply_unrelated() -> None:
    """LMS 0, SS undefined, ICAT 0 by the stated rule."""
    lms, ss = language_modelling_score(0, 0, 10), stereotype_score(0, 0, 10)

    assert float(lms) == 0.0
    assert math.isnan(float(ss))
    assert float(idealised_cat_score(lms, ss)) == 0.0


def test_no_reply_at_all() -> None:
    """Without replies nothing is defined, ICAT included."""
    lms, ss = language_modelling_score(0, 0, 0), stereotype_score(0, 0, 0)

    assert math.isnan(float(lms))
    assert math.isnan(float(idealised_cat_score(lms, ss)))


@pytest.mark.parametrize("ss", [0.0, 100.0])
def test_always_or_never_the_stereotype_scores_zero(ss: float) -> None:
    """ICAT is 0 at both ends of SS."""
    assert float(idealised_cat_score(100.0, ss)) == 0.0


def test_swapping_the_roles_mirrors_ss_and_keeps_icat() -> None:
    """Exchanging stereotype and anti-stereotype turns SS into 100 - SS and leaves ICAT alone."""
    one, other = stereotype_score(30, 10, 50), stereotype_score(10, 30, 50)

    assert float(one) + float(other) == pytest.approx(100)
    assert float(idealised_cat_score(80, one)) == pytest.approx(float(idealised_cat_score(80, other)))


def test_counts_may_be_arrays() -> None:
    """Every formula works element by element, undefined cells included."""
    lms = language_modelling_score(np.array([1.0, 0]), np.array([1.0, 0]), np.array([4.0, 0]))

    assert lms[0] == 50.0
    assert math.isnan(lms[1])
