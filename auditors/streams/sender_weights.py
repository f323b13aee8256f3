"""Limits the weight that the sampling rate stated by a sender may give a single exchange.

An exchange that a sender sends at rate r stands for 1 / r exchanges. The gateway cannot check r, so the sender's weight
of an exchange is min(1 / r, L), where L, the largest weight that a stream allows, is at first 1: the weight of an
exchange at rate 1. With s = `max_weight_share`, an exchange that is heavier than L raises it, to L / (1 - s) at most; a
lighter one lowers it, by a factor of (1 - s)^(1 / RECALLED), but not below 1 or its own weight.

L is raised by s / (1 - s) of the weight that the raising exchange has itself. So L - 1 never exceeds s / (1 - s) of the
weight of all exchanges before: beyond the weight at rate 1, no exchange has more than a share s of its stream. One
forged rate changes L by the factor 1 / (1 - s) alone, and light exchanges take that back.

L depends on earlier exchanges only, so min(1 / r, L) is known before the exchange is drawn: bounds and detectors, which
need weights that are predictable and bounded, hold as before. They take the weight relative to L, in (0, 1], so a
stream whose exchanges have become light again is watched as closely as before.

Rates below 1 / L count as 1 / L, so the mean leans away from exchanges at such rates. With W the weight of a stream and
C the weight cut off it, its bias is at most C / (W + C), as the score lies in [0, 1]. Where all rates are r, L reaches
1 / r after log(1 / r) / s exchanges (135 for r = 1/1024) and there is no bias. Where rates differ, a rate that at least
one in RECALLED + 1 exchanges of the sample has counts in full after such a time; a rarer one is cut. How many exchanges
were cut by more than NOTICED, and C, are kept with the stream (`auditors.streams.state`).
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
    """Return the probability whose inverse an exchange weighs: its own, with the sender's rate 1 / largest or more.
    `probability` includes the sender's rate. Raises ValueError outside (0, 1].
    """
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
    """Probability of the draws that are not the sender's."""
    check_probability(probability)
    if not 0.0 < sender_rate <= 1.0:
        raise ValueError(f"sender's rate {sender_rate} is outside (0, 1]")
    return min(1.0, probability / sender_rate)
