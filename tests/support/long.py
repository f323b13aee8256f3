"""What every run does of a long test, and what only `make test-long` or `make test-simulations` does."""

from collections.abc import Iterable

import pytest
from scipy.stats import binom

POSTGRES_LATER = pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgres, pytest.mark.long])], indirect=True
)
"""For a test of minutes: on SQLite in every run, on PostgreSQL as well in `make test-long`."""


def repeated(all_of_them: int, *, quick: int | None = None) -> pytest.MarkDecorator:
    """Parametrize `times` by both numbers. The greater is marked `simulation`; without `quick` it is the only one, for
    a test that a few draws would prove nothing of.
    """
    few = [] if quick is None else [quick]
    return pytest.mark.parametrize("times", [*few, pytest.param(all_of_them, marks=pytest.mark.simulation)])


def but_long(names: Iterable[object], *, quick: object) -> list[object]:
    """Parameters for `pytest.mark.parametrize`: one as it is, the others marked `long`."""
    return [name if name == quick else pytest.param(name, marks=pytest.mark.long) for name in names]


def least_covered(times: int) -> int:
    """Fewest of so many 95% intervals that must hold the truth.

    Were the coverage exactly 95%, another choice of seeds would fall below with probability 0.001 at most.
    """
    return int(binom.ppf(0.001, times, 0.95))
