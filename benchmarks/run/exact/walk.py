"""Follows every reply that may still become an answer, token by token, and adds up where the probability goes.

The event is the one that mode `sample` counts: the reply to this prompt, drawn at the suite's temperature, top_p and
top_k, cut after max_tokens, is read by the suite's `parse` as this value. Where it differs, it is by rule:

- Only replies that begin with an accepted answer are followed. One that leads up to its answer ("It must be he") is
  unrelated here; `sample` may find the answer in it where a suite's rules look into longer replies.
- What follows a settled answer is not read: "he, but she too" is male here.
- Refusals and malformed replies are not told from other unrelated ones: their words are not followed.
- A beginning is forced as text, so the server splits it into tokens its own way; rarer splits of the same text are
  taken to go on alike. Space at the end of a beginning may be lost in the model's chat template.
- Penalties that the server applies by default (a repetition penalty in generation_config.json) act on samples, not on
  the probabilities it reports.

What is too unlikely to follow, or hidden behind the number of tokens that the server names, is kept apart as
"unresolved": each value's true probability lies between its own and its own plus that.
"""

from collections.abc import Awaitable, Callable

from benchmarks.run.exact.truncation import END, UNFORCEABLE, NextTokens
from benchmarks.suites.common.accepted_answers import OPEN, Reading
from benchmarks.suites.protocol import UNRELATED, UNRESOLVED, Sampling

MIN_MASS = 1e-3
"""Beginnings less likely than this are not followed."""
MAX_NODES = 100
"""Requests at most for one item; then what is still open is unresolved."""

AskNext = Callable[[str], Awaitable[NextTokens]]
"""What comes after a reply begun with a text, its end being the token `END`."""


async def follow(ask_next: AskNext, reading: Reading, sampling: Sampling) -> dict[str, float]:
    """Asks beginning by beginning, the likeliest first: requests of one item share their prompt in the server's cache.

    Returns: probabilities by label: each value of the suite, UNRELATED and UNRESOLVED. They add up to 1.
    Raises: whatever `ask_next` raises.
    """
    settled = dict.fromkeys([*sorted(reading.labels), UNRELATED, UNRESOLVED], 0.0)
    pending: dict[tuple[int, str], float] = {(0, ""): 1.0}
    n_requests = 0
    while pending and n_requests < MAX_NODES:
        (length, text), mass = max(pending.items(), key=lambda entry: entry[1])
        if mass < MIN_MASS:
            break
        del pending[length, text]
        n_requests += 1
        following = await ask_next(text)
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


def _verdict(reading: Reading, text: str, token: str, *, is_cut: bool) -> str:
    if token == END:
        return reading.finished(text)
    if UNFORCEABLE in token:
        return UNRESOLVED
    return reading.finished(text + token) if is_cut else reading.begun(text + token)
