"""What every run does of a long test, and what only `make test-long` or `make test-simulations` does."""

from collections.abc import Iterable

import pytest
from scipy.stats import binom


def repeated(all_of_them: int, *, quick: int | None = None) -> pytest.MarkDecorator:
    """Parametrize `times`; the greater number is marked `simulation`, and is the only one without `quick`."""
    few = [] if quick is None else [quick]
    return pytest.mark.parametrize("times", [*few, pytest.param(all_of_them, marks=pytest.mark.simulation)])


def but_long(names: Iterable[object], *, quick: object) -> list[object]:
    """Parameters for `pytest.mark.parametrize`: one as it is, the others marked `long`."""
    return [name if name == quick else pytest.param(name, marks=pytest.mark.long) for name in names]


def least_covered(times: int) -> int:
    """Return how many of n 95% intervals must hold the truth; exact 95% coverage falls below with p <= 0.001."""
    return int(binom.ppf(0.001, times, 0.95))
