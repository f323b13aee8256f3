"""How the suites read what two real models wrote, against labels made by reading."""

import sys

import pytest

from tests.support.real_replies import FAMILIES, read_all, share_right

LEAST_RIGHT = {"choices": 0.94, "labels": 0.98, "numbers": 0.91}
"""Least share of a family's replies that is read as labelled; `pytest -s` writes the shares."""


@pytest.mark.parametrize("family", FAMILIES)
def test_real_replies_are_read_as_labelled(family: str) -> None:
    """Of the labelled replies of a family of suites nearly all are read as their answer, or as none."""
    results = list(read_all(family))
    shares = share_right(results)
    sys.stdout.write(f"{family}: " + ", ".join(f"{name} {right} of {n}" for name, (right, n) in shares.items()) + "\n")
    misread = [(result.labelled, result.parsed) for result in results if not result.is_right]
    assert len(results) >= 100
    assert len(misread) <= (1 - LEAST_RIGHT[family]) * len(results), misread
