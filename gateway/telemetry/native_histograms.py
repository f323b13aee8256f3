"""Exponential buckets of Prometheus' native histograms: each ends 9 % above the bucket before, and only filled ones
exist.

Source: https://prometheus.io/docs/specs/native_histograms/
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from prometheus_client.samples import BucketSpan, Exemplar, NativeHistogram

SCHEMA = 3
"""Bucket i ends at 2 ** (i / 2 ** SCHEMA), its bound included."""

ZERO_THRESHOLD = 2.0**-30
"""Up to it (a nanosecond) an observation counts as zero."""

_PER_OCTAVE = 2**SCHEMA
_BOUNDS = [2.0 ** (step / _PER_OCTAVE - 1) for step in range(_PER_OCTAVE)]
"""Upper bounds from a half up to below 1, the range of a float's mantissa."""


def observe(buckets: dict[int, int], value: float) -> None:
    """Counts a value in its bucket; in none if it counts as zero."""
    if value > ZERO_THRESHOLD:
        mantissa, exponent = math.frexp(value)
        index = exponent * _PER_OCTAVE + bisect_left(_BOUNDS, mantissa) - _PER_OCTAVE
        buckets[index] = buckets.get(index, 0) + 1


def native_histogram(
    buckets: Mapping[int, int], *, count: int, total: float, exemplars: Sequence[Exemplar] = ()
) -> NativeHistogram:
    """Return the histogram as a scraper is told it.

    `count`: of all observations. Those in no bucket are zeros, or of a version that had no such buckets.
    """
    spans: list[BucketSpan] = []
    deltas: list[int] = []
    end, before = 0, 0
    for index in sorted(buckets):
        if spans and index == end:
            spans[-1] = BucketSpan(spans[-1].offset, spans[-1].length + 1)
        else:
            spans.append(BucketSpan(index - end, 1))
        deltas.append(buckets[index] - before)
        end, before = index + 1, buckets[index]
    return NativeHistogram(
        count_value=count,
        sum_value=total,
        schema=SCHEMA,
        zero_threshold=ZERO_THRESHOLD,
        zero_count=count - sum(buckets.values()),
        pos_spans=spans,
        pos_deltas=deltas,
        nh_exemplars=exemplars,
    )
