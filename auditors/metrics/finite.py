"""Finite numbers only: sums that are kept have no infinity and no NaN, which JSON cannot hold."""

import math


class NotFiniteError(ValueError):
    """A number that is kept would be infinite, or not a number."""


def require_finite(owner: object, total: float) -> None:
    """Raise NotFiniteError unless `total` is finite.

    Args:
        owner: whose numbers they are, for the message.
        total: a sum or product that is infinite or NaN if one of the numbers is.
    """
    if not math.isfinite(total):
        raise NotFiniteError(f"{type(owner).__name__} would hold a number that is not finite: {owner}")
