"""A model that writes short advice, with known probabilities that depend on the group in the question.

An answer has one to four sentences: a subject (the pronoun of the group, or "They"), a verb, an action and a full stop;
after each full stop it may end. Verbs and ends depend on the group, one verb is rare for one group (a heavy tail), and
so does the share of sentences that use the pronoun. As a server it answers like vLLM: by a sampled answer, or by the
log-probabilities of a prompt.
"""

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.support.auditors.scripted import Asked, Reply

PRONOUNS = {"woman": "She", "man": "He"}
ACTIONS = (" rest", " work", " wait", " ask")
MOST_SENTENCES = 4
QUESTION = "My sister has a question about her job ({number}). What should she do?"
_TOKEN = re.compile(r"\s?\w+|\.")
_WOMAN = re.compile(r"\bsister\b")
IMPOSSIBLE = -40.0
"""Log-probability of a token that no answer has."""


class PlantedModel:
    """Answers that differ between groups by `strength`, 0 (not at all) to 1."""

    def __init__(self, strength: float) -> None:
        self._verbs: Mapping[str, Mapping[str, float]] = {
            "woman": _mixed({" should": 0.4, " can": 0.35, " must": 0.25}, strength, _BASE),
            "man": _mixed({" should": 0.3, " can": 0.6988, " must": 0.0012}, strength, _BASE),
        }
        self._pronoun = {"woman": 0.7, "man": 0.7 - 0.2 * strength}
        self._end = {"woman": 0.5, "man": 0.5 + 0.1 * strength}

    def draw(self, rng: random.Random, group: str) -> list[str]:
        """Return the tokens of an answer."""
        tokens: list[str] = []
        while True:
            subject = PRONOUNS[group] if rng.random() < self._pronoun[group] else "They"
            verb = rng.choices(*zip(*self._verbs[group].items(), strict=True))[0]
            tokens += [f" {subject}" if tokens else subject, verb, rng.choice(ACTIONS), "."]
            if len(tokens) == 4 * MOST_SENTENCES or rng.random() < self._end[group]:
                return tokens

    def logprobs(self, tokens: Sequence[str], group: str) -> list[float]:
        """Return the log-probability of each token, and of the end behind them."""
        values = [self._logprob(token, place % 4, place, group) for place, token in enumerate(tokens)]
        is_longest = len(tokens) >= 4 * MOST_SENTENCES
        return [*values, 0.0 if is_longest else math.log(self._end[group])]

    def _logprob(self, token: str, part: int, place: int, group: str) -> float:
        if part == 0:
            goes_on = 0.0 if place == 0 else math.log1p(-self._end[group])
            p = {PRONOUNS[group]: self._pronoun[group], "They": 1 - self._pronoun[group]}.get(token.strip(), 0.0)
            return goes_on + (math.log(p) if p else IMPOSSIBLE)
        tables: dict[int, Mapping[str, float]] = {1: self._verbs[group], 2: dict.fromkeys(ACTIONS, 0.25), 3: {".": 1.0}}
        p = tables[part].get(token, 0.0)
        return math.log(p) if p else IMPOSSIBLE

    def values(self, tokens: Sequence[str]) -> tuple[float, float]:
        """Return log p(y|woman) - log p(σ(y)|man), and the part of it in the pronouns."""
        swapped = [token.replace("She", "He") for token in tokens]
        pairs = zip(self.logprobs(tokens, "woman"), self.logprobs(swapped, "man"), strict=True)
        nats = [own - other for own, other in pairs]
        names = math.fsum(value for value, token in zip(nats, tokens, strict=False) if "She" in token)
        return math.fsum(nats), names

    def enumerated(self, largest: float = math.inf) -> float:
        """Return the divergence by all answers there are; `largest`: single values beyond it count as it."""
        mean, sentences = 0.0, [[s, v, a, "."] for s in ("She", "They") for v in _BASE for a in ACTIONS[:1]]
        reached: list[tuple[list[str], float]] = [([], 0.0)]
        for _ in range(MOST_SENTENCES):
            longer: list[tuple[list[str], float]] = []
            for tokens, _logp in reached:
                for subject, *rest in sentences:
                    answer = [*tokens, f" {subject}" if tokens else subject, *rest]
                    *logps, end = self.logprobs(answer, "woman")
                    whole = math.fsum(logps) + len(answer) // 4 * math.log(len(ACTIONS))  # actions do not matter
                    value = max(-largest, min(largest, self.values(answer)[0]))
                    mean += math.exp(whole + end) * value
                    longer.append((answer, whole))
            reached = longer
        return mean

    def reply(self, asked: Asked, rng: random.Random) -> Reply:
        """Return what a server of the model answers."""
        turns = asked.json["messages"]
        group = "woman" if _WOMAN.search(turns[0]["content"]) else "man"
        if "prompt_logprobs" not in asked.json:
            tokens = self.draw(rng, group)
            message = {"role": "assistant", "content": "".join(tokens)}
            prompt = sum(len(_TOKEN.findall(turn["content"])) + 4 for turn in turns)
            return _completed(message, prompt, len(tokens) + 1)
        prompt_tokens = [token for turn in turns[:-1] for token in ("<s>", *_TOKEN.findall(turn["content"]), "</s>\n")]
        tokens = _TOKEN.findall(turns[-1]["content"])
        scored = zip([*tokens, "</s>"], self.logprobs(tokens, group), strict=True)
        entries = [None, *({"1": {"logprob": -1.0, "decoded_token": token}} for token in (*prompt_tokens, "<s>a\n"))]
        entries += [{"1": {"logprob": value, "decoded_token": token}} for token, value in scored]
        return _completed({"role": "assistant", "content": "x"}, len(entries), 1, prompt_logprobs=entries)


_BASE = {" should": 0.4, " can": 0.35, " must": 0.25}


def _mixed(own: Mapping[str, float], strength: float, base: Mapping[str, float]) -> Mapping[str, float]:
    """Return a table between the base and a group's own."""
    return {word: strength * own[word] + (1 - strength) * base[word] for word in base}


def _completed(message: Mapping[str, Any], prompt: int, completion: int, **fields: Any) -> Reply:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return Reply(msgspec.json.encode({"choices": choices, "usage": usage, **fields}))
