"""Metric families of the auditor: their prefix, and samples that are absent where a value is undefined."""

from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


def counter(name: str, text: str, labels: Sequence[str]) -> CounterMetricFamily:
    """Return an empty counter family `biasgate_NAME_total` with its help text."""
    return CounterMetricFamily(f"biasgate_{name}", text, labels=labels)


def gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    """Return an empty gauge family `biasgate_NAME` with its help text."""
    return GaugeMetricFamily(f"biasgate_{name}", text, labels=labels)


def interval(name: str, text: str, labels: Sequence[str]) -> tuple[GaugeMetricFamily, ...]:
    """Return three gauge families: a value, the lower and the upper end of its interval."""
    ends = {"": text, "_lower": "Lower end of its interval.", "_upper": "Upper end of its interval."}
    return tuple(gauge(f"{name}{end}", words, labels) for end, words in ends.items())


def put(family: GaugeMetricFamily, labels: Sequence[str], value: float | None) -> None:
    """Add a sample; none where the value is None, for undefined is not zero."""
    if value is not None:
        family.add_metric(labels, value)
