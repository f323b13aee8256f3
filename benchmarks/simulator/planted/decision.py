"""Decisions planted: which character gets the favourable word; the judge sees P1 and P2, not who is stigmatised."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import permutations
from operator import mul
from typing import NamedTuple

import msgspec

from auditors.metrics.association import Link, decision_outcome
from benchmarks.run.plan import Plan
from benchmarks.simulator.planted.kinds import PlantedBehaviour
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.prose import compose
from benchmarks.simulator.replies import Replies, uniform
from benchmarks.simulator.sections import TOLERANCE, Parted, Probability
from benchmarks.simulator.stance import REFUSAL, is_refused, pattern_of
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.common.association_cells import DOMAINS, scores_unread
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.decision.judge import JUDGE_PROMPT, Verdict
from benchmarks.suites.decision.suite import Decision as Suite
from benchmarks.suites.decision.suite import Scenario, Test, tests
from benchmarks.suites.protocol import Item

MALFORMED = "P1 seems the livelier of the two, I would say."

_OPENING = "two short profiles, within 100 words, about"
"""Words that stand in every scenario, so that other requests are passed over at once."""
_SLOTS = {"alpha": r"[^\n]*?", "beta": r"[^\n]*?", "text": ".*"}
_JUDGED = pattern_of(JUDGE_PROMPT.format(**{name: f"{{{name}}}" for name in _SLOTS}), **_SLOTS)
_GIVEN = re.compile(r'\b(?P<person>P1|P2) is given "(?P<word>[^"]*)"')


class PlantedDecision(Parted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [decision]: odds of the decisions in replies; each except the first is a share of all replies."""

    own, part, valid = "domains", "domain", DOMAINS

    p_stereotype: Probability = 0.5
    """P(the stigmatised character gets the negative word | each character gets one)."""
    p_neither: Probability = 0.0
    p_refusal: Probability = 0.0
    domains: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)

    @property
    def overflow(self) -> str | None:
        undecided = self.p_neither + self.p_refusal
        return f"p_neither + p_refusal is {undecided:g}: at most 1" if undecided > 1 + TOLERANCE else None

    @property
    def p_decided(self) -> float:
        return 1 - self.p_neither - self.p_refusal


class _Rates(NamedTuple):
    """Shares of all replies."""

    consistent: float
    reversed: float
    refusal: float
    counted: float


class Planted:
    """Decisions and their judge under one profile, and what a run must find."""

    def __init__(self, profile: Profile, seed: int) -> None:
        self._profile = profile
        self._section = profile.section(PlantedDecision)
        self._seed = seed

    def replies(self, request: Asked) -> Replies | None:
        """The answer to a scenario or to a judge's question about a decision; None for anything else."""
        judged = _JUDGED.fullmatch(request.user)
        if judged:
            return Replies({self._verdict(judged): 1.0})
        if _OPENING not in request.user:
            return None
        text, every = request.user, _tests()
        prompt = text if text in every else next((prompt for prompt in every if prompt in text), None)
        return None if prompt is None else self._decisions(prompt, *every[prompt])

    def expected(self, key: CellKey, *, plan: Plan | None = None) -> float | None:
        """Return the value a run of a plan (None: all tests) must find, the same for each category of a domain; None:
        not fixed. With judge errors: a miss leaves the decision open, an invention favours no side, failures are out.
        """
        if key.group is not None or key.reference is not None or (key.axis is None and key.subset is not None):
            return None
        if key.axis is not None and key.axis not in DOMAINS:
            return None
        items = None if plan is None else plan.items
        is_scored = plan is not None and scores_unread(plan.options.protocol)
        rates = self._rates(items) if key.axis is None else self._rates_of(key.axis)
        directed = rates.consistent + rates.reversed
        in_means = rates.counted if is_scored else rates.counted - rates.refusal
        values = {
            "signed_mean": 100 * (rates.reversed - rates.consistent) / in_means if in_means > 0 else None,
            "absolute_mean": 100 * directed / in_means if in_means > 0 else None,
            "stereotype_rate": 100 * rates.consistent / directed if directed > 0 else None,
            "refusal_rate": 100 * rates.refusal / rates.counted,
            "malformed_rate": 0.0,
        }
        return values.get(key.metric)

    def _rates_of(self, domain: str) -> _Rates:
        odds, errors = self._section.odds(domain), self._profile.judge
        failed = errors.p_malformed + errors.p_refusal
        read = (1 - failed) * odds.p_decided * errors.sensitivity
        invented = (1 - failed) * odds.p_neither * errors.false_positive_rate
        return _Rates(
            consistent=read * odds.p_stereotype + invented / 2,
            reversed=read * (1 - odds.p_stereotype) + invented / 2,
            refusal=odds.p_refusal,
            counted=odds.p_refusal + (1 - odds.p_refusal) * (1 - failed),
        )

    def _rates(self, items: Sequence[Item] | None) -> _Rates:
        """Over all domains, weighted by their tests."""
        weights = _tests_by_domain() if items is None else Counter(item.axis for item in items)
        total = sum(weights.values())
        columns = zip(*map(self._rates_of, weights), strict=True)
        return _Rates(*(sum(map(mul, weights.values(), column)) / total for column in columns))

    def _decisions(self, prompt: str, domain: str, test: Test) -> Replies:
        odds = self._section.odds(domain)
        profiles = write_profiles(prompt, test.a, test.b, self._seed)
        consistent, turned = (
            f"{profiles}\n\n{write_decision(test.a, word, test.b, other)}"
            for word, other in ((test.positive, test.negative), (test.negative, test.positive))
        )
        return Replies(
            {
                consistent: odds.p_decided * odds.p_stereotype,
                turned: odds.p_decided * (1 - odds.p_stereotype),
                f"{profiles}\n\n{LEFT_OPEN}": odds.p_neither,
                REFUSAL: odds.p_refusal,
            }
        )

    def _verdict(self, judged: re.Match[str]) -> str:
        errors, question = self._profile.judge, judged.string
        chance = uniform(self._seed, "judge reply", question)
        if chance < errors.p_malformed:
            return MALFORMED
        if chance < errors.p_malformed + errors.p_refusal:
            return REFUSAL
        verdict = _erring(_read(judged), uniform(self._seed, "judge error", question), self._profile)
        return msgspec.json.encode(verdict).decode()


LEFT_OPEN = "Decision: it is left open, as both would do."


def write_profiles(prompt: str, a: str, b: str, seed: int) -> str:
    """Return a profile of either character, three stock sentences each, a line for each."""
    filling = compose(prompt, fraction=0.0, seed=seed)
    return f"{a}: {' '.join(filling[:3])}\n{b}: {' '.join(filling[3:6])}"


def write_decision(a: str, word: str, b: str, other: str) -> str:
    """Return the decision that gives the first word to `a` and the other to `b`."""
    return f'Decision: {a} is given "{word}". {b} is given "{other}".'


def _read(judged: re.Match[str]) -> Verdict:
    links: Mapping[str, Link] = {judged["alpha"].casefold(): "alpha", judged["beta"].casefold(): "beta"}
    assigned = {
        match["person"]: links.get(match["word"].casefold(), "none") for match in _GIVEN.finditer(judged["text"])
    }
    return Verdict(a=assigned.get("P1", "none"), b=assigned.get("P2", "none"), refusal=is_refused(judged["text"]))


def _erring(verdict: Verdict, chance: float, profile: Profile) -> Verdict:
    """The verdict with the planted mistakes of a judge that cannot know which side is which."""
    if verdict.refusal:
        return verdict
    if decision_outcome(verdict.a, verdict.b) != 0:
        is_missed = chance >= profile.judge.sensitivity
        return Verdict(a="none", b="none", refusal=False) if is_missed else verdict
    is_invented = chance < profile.judge.false_positive_rate
    return Verdict(a="alpha", b="beta", refusal=False) if is_invented else verdict


@cache
def _tests() -> dict[str, tuple[str, Test]]:
    """Domain and test by prompt, of every test of every protocol, with characters and words in either order."""
    scenarios = msgspec.convert(Suite().load("embedded").records, list[Scenario])
    by_prompt = {}
    for protocol in Suite.protocols:
        for scenario, _, test in tests(scenarios, protocol):
            for first, second in permutations((test.a, test.b)):
                for word1, word2 in permutations((test.positive, test.negative)):
                    prompt = scenario.template.format(first=first, second=second, word1=word1, word2=word2)
                    by_prompt[prompt] = scenario.domain, test
    return by_prompt


def _tests_by_domain() -> Mapping[str, int]:
    scenarios = msgspec.convert(Suite().load("embedded").records, list[Scenario])
    return Counter(scenario.domain for scenario, _, _ in tests(scenarios, "corrected"))


PLANTED = PlantedBehaviour(PlantedDecision, Planted)
