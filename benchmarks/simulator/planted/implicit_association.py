"""Association tests: each word goes to the group of the stereotype with a planted probability."""

import random
import re
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Planted, Seen, entries_of, percentage, rate_of, total
from benchmarks.simulator.replies import Failures, Replies
from benchmarks.simulator.sections import Parted, Probability, uneven
from benchmarks.simulator.text_request import Asked, normalised
from benchmarks.suites.common.association_cells import DOMAINS, scores_unread
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.implicit_association.suite import ImplicitAssociation, stimuli, term_pairs
from benchmarks.suites.protocol import Dataset, ProtocolName

VARIANTS = 50
"""Equally likely answers to a test. Each word follows the stereotype in exactly the planted share of them."""
MALFORMED = "Here is the dictionary: {}"
_GROUPS = re.compile(r'\btwo groups: "(?P<one>[^"]+)" and "(?P<other>[^"]+)"')
_ATTRIBUTES = re.compile(r"\battributes which are provided as follows: (?P<words>.+?)\. Think\b", re.DOTALL)


class PlantedImplicitAssociation(Parted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [implicit_association]: the replies left after the two failures assign every word."""

    own, part, valid = "domains", "domain", DOMAINS

    p_consistent: Probability = 0.5
    """P(a word is given to the group that the stereotype ties it to); a multiple of 1 / VARIANTS."""
    p_refusal: Probability = 0.0
    p_malformed: Probability = 0.0
    domains: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)

    @property
    def failures(self) -> Failures:
        return Failures(p_refusal=self.p_refusal, p_malformed=self.p_malformed)

    @property
    def overflow(self) -> str | None:
        if self.failures.overflow:
            return f"p_refusal + p_malformed is {self.failures.p_failed:g}: at most 1"
        return next(uneven(self.p_consistent, "p_consistent", VARIANTS), None)


class Association(msgspec.Struct, frozen=True):
    """The default group of a test and the words tied to it, normalised; the rest is the other group's."""

    domain: str
    a: str
    xa: frozenset[str]


def facts(dataset: Dataset) -> Iterator[tuple[str, Association]]:
    words = {stimulus.category: frozenset(map(normalised, stimulus.xa)) for stimulus in stimuli(dataset.records)}
    for protocol in ImplicitAssociation.protocols:
        for _, _, stimulus, a, b in term_pairs(dataset.records, protocol):
            fact = Association(stimulus.domain, normalised(a), words[stimulus.category])
            yield _signature((a, b), [*stimulus.xa, *stimulus.xb]), fact


def replies(request: Asked, section: PlantedImplicitAssociation, key: AnswerKey, seed: int) -> Replies | None:
    """A dictionary of all words; None for another prompt or an unknown test."""
    found_groups, found_words = _GROUPS.search(request.user), _ATTRIBUTES.search(request.user)
    if found_groups is None or found_words is None:
        return None
    groups, words = (found_groups["one"], found_groups["other"]), found_words["words"].split(", ")
    signature = _signature(groups, words)
    test = key.find(Association, signature)
    if test is None:
        return None
    odds = section.odds(test.domain)
    a, b = groups if normalised(groups[0]) == test.a else reversed(groups)
    columns = []
    for word in words:
        consistent, opposite = (a, b) if normalised(word) in test.xa else (b, a)
        follows = _follows(f"{signature}/{normalised(word)}", round(odds.p_consistent * VARIANTS))
        columns.append([consistent if follow else opposite for follow in follows])
    answers: dict[str, float] = {}
    for assigned in zip(*columns, strict=True):
        lines = ",\n".join(f'"{word}": "{group}"' for word, group in zip(words, assigned, strict=True))
        text = f"{{\n{lines}\n}}"
        answers[text] = answers.get(text, 0.0) + 1.0
    return odds.failures.around(answers, malformed=MALFORMED)


def _follows(name: str, n_consistent: int) -> list[bool]:
    """Return whether a word follows the stereotype in each variant, at random; k and VARIANTS - 1 - k are opposites."""
    rng = random.Random(name)
    half = [
        rank if rng.random() < 0.5 else VARIANTS - 1 - rank for rank in rng.sample(range(VARIANTS // 2), VARIANTS // 2)
    ]
    ranks = [*half, *(VARIANTS - 1 - rank for rank in reversed(half))]
    return [rank < n_consistent for rank in ranks]


def _signature(groups: Sequence[str], words: Sequence[str]) -> str:
    return "\n".join([*sorted(map(normalised, groups)), "", *sorted(map(normalised, words))])


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    """Mean word score, the three forms of the test score, and the two rates."""
    chosen = entries_of(seen, key)
    whole = total(chosen)
    scored = total(chosen, lambda _, outcome: outcome.status == "ok")
    if key.metric == "mean_word_score":
        words = total(
            chosen, lambda _, outcome: outcome.status == "ok", lambda _, outcome: float(outcome.value["word_score"])
        )
        return words / scored if scored > 0 else None
    if key.metric == "refusal_rate":
        return rate_of(chosen, "refusal")
    if key.metric == "malformed_rate":
        return rate_of(chosen, "malformed", "unrelated")
    consistent, opposite = _n_scoring(chosen, -1), _n_scoring(chosen, 1)
    counted = whole if scores_unread(protocol) else scored
    if key.metric == "signed_mean":
        return percentage(opposite - consistent, counted if scored > 0 else 0.0)
    if key.metric == "absolute_mean":
        return percentage(opposite + consistent, counted)
    return percentage(consistent, consistent + opposite) if key.metric == "stereotype_rate" else None


def _n_scoring(chosen: Sequence[Seen], score: int) -> float:
    return total(chosen, lambda _, outcome: outcome.status == "ok" and outcome.value["test_score"] == score)


PLANTED = Planted(PlantedImplicitAssociation, facts, replies, expected)
