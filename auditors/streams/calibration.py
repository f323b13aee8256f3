"""Calibration of a judge by people's labels of audited exchanges, drawn with stated probabilities. Needs no numpy."""

import math
from collections.abc import Sequence

import msgspec

from auditors.metrics.intervals import Interval, wilson_interval
from auditors.metrics.weighting import WeightedSums, hajek_mean, weighted_variance
from auditors.streams.label_sequence import Draw, LabelSequence

LEAST_PAIRS = 30
"""Fewer labels give no correction."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange that a judge and a person have scored; both in [0, 1] or in the metric's own unit."""

    judge: float
    person: float
    group: str = ""
    weight: float = 1.0
    """Inverse of the probability with which it was audited and chosen for a label."""
    cluster: str | None = None
    """Cluster of pairs that depend on each other, e.g. their exchange; None if this pair stands alone."""
    draw: Draw | None = None
    """Draw of the exchange for this label, where it is on record."""


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate corrected for a judge's errors; without a value it says why."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    method: str
    n_labels: int
    reason: str | None = None
    trust: float | None = None
    """Share of the judge's mean that is used, 0..1: 0 means that the labels alone say more."""


class ErrorRates(msgspec.Struct, frozen=True, kw_only=True):
    """A judge against people, over exchanges that are above a threshold or not."""

    n_positive: int
    """Exchanges above it according to people."""
    n_negative: int
    sensitivity: float | None
    """Share of the positive ones that the judge puts above it; None without any."""
    sensitivity_interval: Interval | None
    specificity: float | None
    """Share of the negative ones that the judge does not."""
    specificity_interval: Interval | None


def prediction_powered(judged: WeightedSums, judge_bounds: Interval, pairs: Sequence[Pair]) -> Corrected:
    """Mean with 95 % bounds that hold at all times, see `streams.label_sequence`; no value below LEAST_PAIRS labels.
    `judged`: sums of the judge's scores over all audited exchanges; `judge_bounds`: of its mean, at
    `judge_level(0.95)`; `pairs`: in the order of labels, on 0..1, drawn evenly without a record.
    """
    method = "prediction-powered, betting confidence sequence"
    if len(pairs) < LEAST_PAIRS or judged.n < LEAST_PAIRS:
        reason = f"{len(pairs)} labels: {LEAST_PAIRS} or more are needed"
        return Corrected(value=None, method=method, n_labels=len(pairs), reason=reason)
    sequence = LabelSequence(hajek_mean(judged), judge_bounds, weighted_variance(judged))
    clusters = _clusters(pairs)
    n_units = judged.n * len(clusters) / len(pairs)  # clusters among all judged
    largest = max(pair.weight for pair in clusters) * n_units / judged.w
    for pair in clusters:
        evenly = Draw(
            frame=None,
            share=pair.weight / judged.w,
            probability=1.0 / n_units,
            largest=largest,
            largest_judge=largest,
            largest_rest=largest,
        )
        sequence.add(pair.judge, pair.person, pair.draw or evenly)
    ends = sequence.interval()
    value = min(ends.upper, max(ends.lower, sequence.value()))
    return Corrected(
        value=value, lower=ends.lower, upper=ends.upper, method=method, n_labels=len(pairs), trust=sequence.trust
    )


def error_rates(pairs: Sequence[Pair], threshold: float, confidence_level: float = 0.95) -> ErrorRates:
    """Sensitivity and specificity of a judge, unweighted, given people's labels; positive is above the threshold."""
    positive = [pair.judge > threshold for pair in pairs if pair.person > threshold]
    negative = [pair.judge <= threshold for pair in pairs if pair.person <= threshold]
    return ErrorRates(
        n_positive=len(positive),
        n_negative=len(negative),
        sensitivity=sum(positive) / len(positive) if positive else None,
        sensitivity_interval=wilson_interval(sum(positive), len(positive), confidence_level=confidence_level),
        specificity=sum(negative) / len(negative) if negative else None,
        specificity_interval=wilson_interval(sum(negative), len(negative), confidence_level=confidence_level),
    )


def _clusters(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs, where those of a cluster that have no draw of their own are one of their mean and weight."""
    by_cluster: dict[object, list[Pair]] = {}
    for number, pair in enumerate(pairs):
        by_cluster.setdefault(number if pair.cluster is None or pair.draw else pair.cluster, []).append(pair)
    merged = []
    for members in by_cluster.values():
        weight = math.fsum(pair.weight for pair in members)
        judge = math.fsum(pair.weight * pair.judge for pair in members) / weight
        person = math.fsum(pair.weight * pair.person for pair in members) / weight
        merged.append(msgspec.structs.replace(members[0], judge=judge, person=person, weight=weight))
    return merged
