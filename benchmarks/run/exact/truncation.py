"""Truncates a next-token distribution as sampling does: by temperature, top_k and top_p, from its likeliest tokens."""

from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.suites.protocol import Sampling

END = ""
"""The token that ends a reply, whatever the model calls it."""
UNFORCEABLE = "\ufffd"
"""Stands in a token that is a part of a character: no text can force it as a beginning."""


class NextTokens(msgspec.Struct, frozen=True):
    """The distribution that a server samples from."""

    tokens: Sequence[tuple[str, float]]
    """(token, probability), most likely first."""
    unseen: float
    """The most that other tokens can have together, in [0, 1]. All parts add up to 1."""


def truncated(likeliest: Iterable[tuple[str, float]], sampling: Sampling) -> NextTokens:
    """The sampled distribution as vLLM truncates: top_k, then the smallest set with top_p of the rest. `likeliest`:
    (token, probability at temperature 1) of the top; exact if it holds all kept, else a probability is at least the
    given one, at most that and `unseen`. ValueError: a temperature other than 0 (the likeliest) and 1.
    """
    ranked = sorted(likeliest, key=lambda pair: -pair[1])
    if not ranked or ranked[0][1] <= 0:
        return NextTokens((), 1.0)
    if sampling.temperature == 0:
        return NextTokens(((ranked[0][0], 1.0),), 0.0)
    if sampling.temperature != 1:
        raise ValueError(f"mode exact reads probabilities at temperature 0 or 1, not {sampling.temperature:g}")
    candidates, beyond = _top_k(ranked, sampling.top_k)
    listed_mass = sum(p for _, p in candidates)
    top_p = 1.0 if sampling.top_p is None else sampling.top_p
    nucleus: list[tuple[str, float]] = []
    sure, possible = 0.0, 0.0
    for token, p in candidates:
        if possible >= top_p * (listed_mass + beyond):
            break
        if possible < top_p * listed_mass:
            nucleus.append((token, p))
            sure += p
        possible += p
    if possible < top_p * (listed_mass + beyond):
        # Tokens beyond the known ones fill top_p, and the last of them may overshoot it.
        possible = min(listed_mass + beyond, top_p * (listed_mass + beyond) + candidates[-1][1])
    return NextTokens([(token, p / possible) for token, p in nucleus], max(0.0, possible - sure) / possible)


def _top_k(ranked: Sequence[tuple[str, float]], top_k: int | None) -> tuple[Sequence[tuple[str, float]], float]:
    """The known tokens among the top k, and the most that the unknown ones among them can hold."""
    beyond = max(0.0, 1.0 - sum(p for _, p in ranked))
    if not top_k:
        return ranked, beyond
    n_unknown = top_k - len(ranked)
    return ranked[:top_k], min(beyond, max(0, n_unknown) * ranked[-1][1])
