"""Limits the weight that the sampling rate r stated by a sender may give a single exchange (docs/ingest.md).
The weight is min(1 / r, L), L at first 1. A heavier exchange raises L, to L / (1 - s) at most (s = `max_weight_share`);
a lighter one lowers it by (1 - s)^(1 / RECALLED), not below 1 or its own weight. So L - 1 never exceeds s / (1 - s) of
the weight before: beyond rate 1 no exchange has more than a share s. L depends on earlier exchanges only, so weights
stay predictable and bounded, for bounds and detectors relative to L. The bias is at most C / (W + C), with weight W and
C cut off. At a single rate L reaches 1 / r after log(1 / r) / s exchanges, without bias; rates rarer than 1 in RECALLED
+ 1 stay cut. C, and how many were cut by more than NOTICED, are kept (`streams.state`).
"""

import math

from auditors.metrics.weighting import check_probability

RECALLED = 100
"""A weight that fewer than one in so many exchanges reach is forgotten faster than they renew it."""
NOTICED = 0.05
"""Share of its weight that an exchange must lose to count as cut: L moves up and down by less between heavy ones."""


def is_cut(sender_rate: float, largest: float) -> bool:
    """Return whether an exchange weighs noticeably less than its sender's rate says."""
    return sender_rate * largest < 1.0 - NOTICED


def counted_probability(probability: float, sender_rate: float, largest: float) -> float:
    """The probability whose inverse an exchange weighs: the sender's rate raised to 1 / largest. Raises ValueError."""
    if sender_rate == 1.0:
        return probability
    return _own(probability, sender_rate) * max(sender_rate, 1.0 / largest)


def relative_probability(probability: float, sender_rate: float, largest: float) -> float:
    """Return the probability whose inverse is the weight relative to L: over 1 for exchanges lighter than L."""
    return _own(probability, sender_rate) * max(1.0, sender_rate * largest)


def next_largest(largest: float, sender_rate: float, share: float) -> float:
    """Return L after an exchange; share is s of the module's docstring; 1 lets L follow every heavier exchange."""
    weight = 1.0 / sender_rate
    if weight == largest:
        return largest
    if share >= 1.0:
        return max(largest, weight)
    if weight > largest:
        return min(weight, largest / (1.0 - share))
    return max(weight, largest * math.pow(1.0 - share, 1.0 / RECALLED))


def _own(probability: float, sender_rate: float) -> float:
    check_probability(probability)
    if not 0.0 < sender_rate <= 1.0:
        raise ValueError(f"sender's rate {sender_rate} is outside (0, 1]")
    return min(1.0, probability / sender_rate)
