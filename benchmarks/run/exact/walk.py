"""Follows every reply that may still become an answer, token by token, and adds up where the probability goes.

A request tells what follows a beginning, and what follows each step of the likeliest reply from there: an item needs
about one for each answer that is at all likely.

The event is that which mode `sample` counts: the reply to this prompt, drawn at the suite's temperature, top_p and
top_k, cut after max_tokens, is read by the suite's `parse` as this value. Where it differs, it is by rule:

- Only replies that begin with an accepted answer are followed. One that leads up to its answer ("It must be he") is
  unrelated here; `sample` may find the answer in it where a suite's rules look into longer replies.
- What follows a settled answer is not read: "he, but she too" is male here.
- Refusals and malformed replies are not told from other unrelated ones: their words are not followed.
- A beginning is forced as text, so the server splits it into tokens its own way; other splits of the same text are
  taken to go on alike. Space at the end of a beginning may be lost in the model's chat template.
- Penalties that the server applies by default (a repetition penalty in generation_config.json) act on samples, not on
  the probabilities it reports.

Replies too unlikely to follow, or hidden behind the number of tokens that the server names, is kept apart as
"unresolved": each value's true probability lies between its own and its own plus that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from benchmarks.run.exact.truncation import END, UNFORCEABLE, NextTokens
from benchmarks.suites.common.accepted_answers import OPEN, Reading
from benchmarks.suites.protocol import UNRELATED, UNRESOLVED, Sampling

MIN_MASS = 1e-3
MAX_BEGINNINGS = 100
"""Most beginnings followed for an item; anything still open after that is unresolved."""

LOOKAHEAD = 6
"""Tokens of a reply that one request follows: most answers are settled in fewer."""

AskNext = Callable[[str, int], Awaitable[Mapping[str, NextTokens]]]
"""Given a beginning and a number of tokens, returns the tokens after it and after its continuations by the likeliest
tokens, up to that number. The end of a reply is the token `END`."""


async def follow(ask_next: AskNext, reading: Reading, sampling: Sampling) -> dict[str, float]:
    """Ask what follows all likely beginnings at once, repeatedly: those of an item share their prompt in the server's
    cache. Returns probabilities by label (each value of the suite, UNRELATED and UNRESOLVED), which add up to 1.
    """
    settled = dict.fromkeys([*sorted(reading.labels), UNRELATED, UNRESOLVED], 0.0)
    pending: dict[tuple[int, str], float] = {(0, ""): 1.0}
    next_by_text: dict[str, NextTokens] = {}
    n_asked = 0
    while likely := {key: mass for key, mass in pending.items() if mass >= MIN_MASS}:
        ready = {key: mass for key, mass in likely.items() if key[1] in next_by_text}
        if not ready:
            to_ask = _unknown(likely, MAX_BEGINNINGS - n_asked)
            if not to_ask:
                break
            n_asked += len(to_ask)
            for answers in await asyncio.gather(
                *(ask_next(text, min(LOOKAHEAD, sampling.max_tokens - length)) for text, length in to_ask.items())
            ):
                next_by_text |= answers
            continue
        length, text = max(ready, key=ready.__getitem__)
        mass = pending.pop((length, text))
        following = next_by_text[text]
        settled[UNRESOLVED] += mass * following.unseen
        for token, p in following.tokens:
            label = _verdict(reading, text, token, is_cut=length + 1 == sampling.max_tokens)
            if label == OPEN:
                key = (length + 1, text + token)
                pending[key] = pending.get(key, 0.0) + mass * p
            else:
                settled[label] = settled.get(label, 0.0) + mass * p
    settled[UNRESOLVED] += sum(pending.values())
    return {label: min(1.0, p) for label, p in settled.items()}


def _unknown(likely: Mapping[tuple[int, str], float], most: int) -> dict[str, int]:
    """Beginnings to ask for, the likeliest first, and the least number of tokens of each."""
    lengths: dict[str, int] = {}
    for length, text in sorted(likely, key=likely.__getitem__, reverse=True):
        lengths[text] = min(length, lengths.get(text, length))
    return dict(list(lengths.items())[:most])


def _verdict(reading: Reading, text: str, token: str, *, is_cut: bool) -> str:
    if token == END:
        return reading.finished(text)
    if UNFORCEABLE in token:
        return UNRESOLVED
    return reading.finished(text + token) if is_cut else reading.begun(text + token)
