"""Intervals of shares whose trials come in clusters: Wilson's, on as many independent trials as would say the same."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from auditors.metrics.bootstrap import Statistic, crossed_noise, row_variance
from auditors.metrics.intervals import Interval

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

Counts = tuple[Floats, Floats]
"""Successes and trials of each cluster, each (n_clusters,)."""

FEWEST_TELLING = 10
"""Clusters with a difference of their own that a t interval of a difference takes: with fewer it covers 75 to 99 %."""
_FEWEST_DEGREES = 2.0
"""Fewest degrees of freedom, even if few clusters cause most of the variance: the quantile grows below."""
_ROUNDING = 1e-15
"""Variances of shares below the square of this are sums of the same numbers in another order."""


@dataclass(frozen=True)
class ClusteredShare:
    """A share, and how far clusters let it be known."""

    share: float
    """Share in [0, 1]."""
    standard_error: float
    """Between clusters; 0 where all of them agree."""
    degrees: float
    """Degrees of freedom of the standard error; infinite if the variance follows from the share itself."""
    effective_n: float
    """Independent trials that would say as much; infinite for a share known without error."""
    deviations: Floats
    """(n_clusters,) jackknife deviations; their squares, summed and times n / (n - 1), are the variance."""

    def interval(self, confidence_level: float) -> Interval:
        """Wilson's formula, with `effective_n` trials and Student's quantile."""
        if math.isinf(self.effective_n):
            return Interval(self.share, self.share)
        tail = (1 + confidence_level) / 2
        quantile = float(ndtri(tail) if math.isinf(self.degrees) else stdtrit(self.degrees, tail))
        over_n = quantile * quantile / self.effective_n
        centre = (self.share + over_n / 2) / (1 + over_n)
        spread = self.share * (1 - self.share) / self.effective_n + over_n / (4 * self.effective_n)
        half = quantile / (1 + over_n) * math.sqrt(spread)
        # At an end the two terms are equal but for rounding.
        lower = 0.0 if self.share == 0 else max(0.0, centre - half)
        upper = 1.0 if self.share == 1 else min(1.0, centre + half)
        return Interval(min(lower, self.share), max(upper, self.share))


def clustered_share(
    parts: Floats, wholes: Floats, *, is_exact: bool = False, factors: Sequence[Indices] = ()
) -> ClusteredShare | None:
    """Share of `parts` in `wholes`, (n_clusters,) each, 0 <= part <= whole; None below two clusters with trials.
    Variance: the jackknife's over clusters, degrees of freedom by their kurtosis; binomial over clusters (their
    effective number at 0 and 1) where each is unanimous and all have one size, unless `is_exact`: parts are sums of
    known probabilities. `factors`: (n_clusters,) levels that clusters share; the variance is then at least that of
    `crossed_noise`. Source: Franco et al. 2019, doi:10.1093/jssam/smy019; Dean and Pagano 2015,
    doi:10.1093/jssam/smv024 (Wilson's interval on the effective size); Satterthwaite 1946, doi:10.2307/3002019. A
    unanimous cluster as a trial is our choice.
    """
    total = float(wholes.sum())
    used = wholes > 0
    n = int(used.sum())
    if n < 2:
        return None
    share = min(1.0, max(0.0, float(parts.sum()) / total))
    # Leaving a cluster out divides by what is left; a cluster that is nearly everything moves it far.
    left = np.where(used, total - wholes, 1.0)
    deviations = (n - 1) / n * np.divide(parts - share * wholes, left, out=np.zeros(len(parts)), where=left > 0)
    variance = float((deviations**2).sum()) * n / (n - 1)
    if not factors and _is_of_one_mind(parts[used], wholes[used], share) and not (is_exact and share in (0.0, 1.0)):
        effective = total**2 / float((wholes**2).sum())
        error = math.sqrt(share * (1 - share) / effective)
        return ClusteredShare(share, error, math.inf, effective, deviations)
    if variance <= _ROUNDING**2 or share in (0.0, 1.0):
        effective = math.inf if is_exact else total**2 / float((wholes**2).sum())
        return ClusteredShare(share, 0.0, math.inf, effective, deviations)
    degrees = degrees_of_freedom(deviations[used])
    if factors:
        noise = crossed_noise(np.stack([parts, wholes], axis=1)[used], [levels[used] for levels in factors], _ratio)
        if noise.variance[0] > variance:
            variance, degrees = float(noise.variance[0]), min(degrees, noise.degrees)
    return ClusteredShare(share, math.sqrt(variance), degrees, share * (1 - share) / variance, deviations)


def cluster_wilson(
    parts: Floats, wholes: Floats, *, confidence_level: float = 0.95, is_exact: bool = False
) -> Interval | None:
    """Interval of `clustered_share`; that of the opposite share is its mirror image. None with too few clusters."""
    share = clustered_share(parts, wholes, is_exact=is_exact)
    return None if share is None else share.interval(confidence_level)


@dataclass(frozen=True)
class ClusteredDifference:
    """Interval of a difference of two shares, and how it came about."""

    interval: Interval
    method: str
    """cluster-t or cluster-newcombe."""
    standard_error: float


def cluster_difference(
    first: Counts, second: Counts, *, confidence_level: float = 0.95, is_exact: bool = False
) -> ClusteredDifference | None:
    """Interval in [-1, 1] of the first share less the second, (parts, wholes) each, over the same clusters in one
    order. Student's, with the jackknife's error; below `FEWEST_TELLING` clusters with a difference, Newcombe's. None
    where either share has fewer than two clusters with trials.
    """
    a = clustered_share(*first, is_exact=is_exact)
    b = clustered_share(*second, is_exact=is_exact)
    if a is None or b is None:
        return None
    deviations = a.deviations - b.deviations
    used = (first[1] > 0) | (second[1] > 0)
    n = int(used.sum())
    error = math.sqrt(float((deviations**2).sum()) * n / (n - 1))
    # Compared as products: a cluster may lack trials of one of the two.
    n_telling = int((~np.isclose(first[0] * second[1], second[0] * first[1], rtol=0, atol=1e-12)).sum())
    if n_telling < FEWEST_TELLING and not is_exact:
        return ClusteredDifference(_newcombe(a, b, confidence_level), "cluster-newcombe", error)
    value = a.share - b.share
    degrees = degrees_of_freedom(deviations[used]) if error > 0 else math.inf
    half = error * float(stdtrit(degrees, (1 + confidence_level) / 2)) if error > 0 else 0.0
    ends = Interval(max(-1.0, value - half), min(1.0, value + half))
    return ClusteredDifference(ends, "cluster-t", error)


def _newcombe(a: ClusteredShare, b: ClusteredShare, confidence_level: float) -> Interval:
    """Newcombe 1998, Statistics in Medicine 17:2635, method 10, by Zou and Donner 2008, doi:10.1002/sim.3095."""
    of_a, of_b = a.interval(confidence_level), b.interval(confidence_level)
    correlation = _correlation(a.deviations, b.deviations)
    value = a.share - b.share
    below = joined_length(a.share - of_a.lower, of_b.upper - b.share, correlation)
    above = joined_length(of_a.upper - a.share, b.share - of_b.lower, correlation)
    return Interval(max(-1.0, value - below), min(1.0, value + above))


def peaked_interval(
    outer: Counts, inner: Counts, *, confidence_level: float = 0.95, is_exact: bool = False
) -> Interval | None:
    """Interval in [0, 1] of L * min(S, 1 - S) / 0.5 (ICAT), of parts and wholes (n_clusters,); None if a share has
    none. Where S's interval holds the peak 0.5 the upper end is L's, each with half of the error: our rule. Elsewhere
    distances are joined as squares by their slopes: Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    a = clustered_share(*outer, is_exact=is_exact)
    b = clustered_share(*inner, is_exact=is_exact)
    if a is None or b is None:
        return None
    of_a, of_b = a.interval(confidence_level), b.interval(confidence_level)
    height = _height(b.share)
    lowest = min(_height(of_b.lower), _height(of_b.upper))
    at_peak = b.interval((1 + confidence_level) / 2)
    holds_peak = at_peak.lower <= 0.5 <= at_peak.upper
    highest = 1.0 if holds_peak else max(_height(of_b.lower), _height(of_b.upper))
    rising = -1.0 if b.share > 0.5 else 1.0
    correlation = rising * _correlation(a.deviations, b.deviations)
    value = a.share * height
    below = joined_length(height * (a.share - of_a.lower), a.share * (height - lowest), -correlation)
    above = joined_length(height * (of_a.upper - a.share), a.share * (highest - height), -correlation)
    upper = max(of_a.upper, value) if holds_peak else min(of_a.upper, value + above)
    return Interval(max(0.0, value - below), upper)


@dataclass(frozen=True)
class StratifiedInterval:
    """Interval of a number that is joined from strata."""

    interval: Interval
    standard_error: float


def stratified_t(
    sums: Floats,
    strata: Indices,
    statistic: Statistic,
    *,
    factors: Sequence[Indices] = (),
    confidence_level: float = 0.95,
) -> StratifiedInterval | None:
    """Student's interval of a number that joins strata of a few clusters; arguments of `stratified_bootstrap`. The
    variance is the stratified jackknife's (right for two clusters, where resamples lose strata), with strata of a
    single cluster taken as one; `factors` add the rest of `crossed_noise`. None below two clusters beyond one in each
    of the strata with a difference. Source: Jones 1974, doi:10.1093/biomet/61.3.639; degrees: `clustered_share`.
    """
    if len(sums) < 2:
        return None
    value = float(statistic(sums.sum(axis=0)))
    _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    stratum = np.where(sizes[stratum] == 1, len(sizes), stratum)
    without = np.asarray(statistic(sums.sum(axis=0) - sums), dtype=np.float64)
    without = np.where(np.isnan(without), value, without)
    size = np.bincount(stratum)[stratum]
    means = np.bincount(stratum, weights=without)[stratum] / size
    # A single cluster that has no other to be taken with: how far it moves the number itself.
    deviations = np.where(size > 1, np.sqrt((size - 1) / size) * (without - means), without - value)
    variance = float((deviations**2).sum())
    if variance <= _ROUNDING**2:
        return None
    differing = np.bincount(stratum, weights=deviations**2) > _ROUNDING**2
    if np.maximum(np.bincount(stratum) - 1, 1)[differing].sum() < _FEWEST_DEGREES:
        return None
    degrees = degrees_of_freedom(deviations)
    if factors:

        def parts(rows: Floats) -> Floats:
            return np.asarray(statistic(rows)[..., None])

        noise = crossed_noise(sums, factors, parts)
        variance += max(0.0, float(noise.variance[0] - row_variance(sums, parts)[0]))
        degrees = max(1.0, min(degrees, noise.degrees))
    half = math.sqrt(variance) * float(stdtrit(degrees, (1 + confidence_level) / 2))
    return StratifiedInterval(Interval(value - half, value + half), math.sqrt(variance))


def degrees_of_freedom(deviations: Floats) -> float:
    """Return the degrees of freedom of a variance that sums these squared deviations: 2 E² / Var, at most n - 1."""
    squares = deviations**2
    n = len(squares)
    spread = float(squares.var(ddof=1)) / n
    mean = float(squares.mean())
    return n - 1.0 if spread == 0 else min(n - 1.0, max(_FEWEST_DEGREES, 2 * mean * mean / spread))


def _is_of_one_mind(parts: Floats, wholes: Floats, share: float) -> bool:
    """Return whether each cluster is all or nothing, and all have the same size; any size is allowed if all agree."""
    if share in (0.0, 1.0):
        return True
    return bool(np.all((parts == 0) | (parts == wholes))) and bool(np.all(wholes == wholes[0]))


def _ratio(sums: Floats) -> Floats:
    wholes = sums[..., 1:]
    return np.divide(sums[..., :1], wholes, out=np.full_like(wholes, np.nan), where=wholes > 0)


def _height(share: float) -> float:
    return 2 * min(share, 1 - share)


def _correlation(a: Floats, b: Floats) -> float:
    size = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / size if size > 0 else 0.0


def joined_length(a: float, b: float, correlation: float) -> float:
    """Length of a difference of two distances with this correlation."""
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))
