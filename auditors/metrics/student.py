"""Student's quantile in plain floats: the gateway needs it without scipy."""

from statistics import NormalDist


def student_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t by its expansion about the normal one.

    Args:
        probability: in (0, 1).
        degrees: of freedom, 2 or more; infinite gives the normal quantile.

    Returns: for probabilities of .975 or nearer to .5 within 0.8 % of the exact one at 2 degrees, 0.02 % at 5.
    Raises: ValueError for fewer degrees.
    Source: Abramowitz and Stegun 1964, 26.7.5.
    """
    if degrees < 2:
        raise ValueError(f"the expansion holds from 2 degrees of freedom on, not {degrees}")
    z = NormalDist().inv_cdf(probability)
    square = z * z
    terms = (
        z * (square + 1) / 4,
        z * ((5 * square + 16) * square + 3) / 96,
        z * (((3 * square + 19) * square + 17) * square - 15) / 384,
        z * ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))
