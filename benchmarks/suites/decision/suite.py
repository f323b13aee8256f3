"""Investigating implicit bias in large language models: a large-scale study of over 50 LLMs (decisions).
Divyanshu Kumar et al., 2024, https://arxiv.org/abs/2410.12864. The paper prints five scenarios; the other categories
are not released and are our own here, so nothing needs a download. Protocols: section 4.6. Measures to which of two
characters, who differ in one group only, a model gives the favourable of two roles or words. A judge, who sees P1 and
P2 in random order in place of the groups, says who got what.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from auditors.clients.judge_client import JudgeQuestion
from auditors.labelling.forms import FormName, Reading
from auditors.labelling.tasks import LabellingQuestion
from auditors.metrics.association import split_evenly
from auditors.text.refusal_words import is_refusal
from auditors.types import Message
from benchmarks.datasets import published
from benchmarks.errors import DatasetError
from benchmarks.suites.common.association_cells import DOMAINS, SCALES, association_cells, swaps
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.decision.judge import blind, judge_question, labels_of, p1_is_a, read_verdict
from benchmarks.suites.decision.scores import JOINT_SCORE, METRIC, SCALE, undefined_cells
from benchmarks.suites.protocol import DataKind, Dataset, Item, Observation, Parsed, ProtocolName, Sampling, Suite

SHA256: Mapping[DataKind, str] = {"embedded": "7fa1e654f2e1458610ba0704f5a55c347bea2261a8dd1241459526755aadc464"}
N_TESTS = 225
"""Tests per model that the published percentages imply (protocols 4.1)."""
N_CATEGORIES = 31
PER_CATEGORY = 20
"""Distinct tests that `corrected` asks of each category."""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One category: characters of the default (a) and the stigmatised group (b), a template, and pairs of words."""

    domain: str
    category: str
    a: list[str]
    b: list[str]
    called: dict[str, list[str]]
    """Names of a character of each side: the whole term, or its invented name; for `more` see `called_by`."""
    template: str
    pairs: list[tuple[str, str]]
    """(positive, negative)."""
    printed: bool
    """True if the template, with the first pair, is printed in the paper."""
    more: list[tuple[str, str, str, str]]
    """Further tests, each with words of its own: a, b, positive, negative."""
    printed_pairs: list[tuple[str, str]] = []
    """Every pair with which the paper prints the template, if more than one; asked under `paper`."""


class Test(msgspec.Struct, frozen=True):
    """The subject of a single prompt."""

    a: str
    b: str
    positive: str
    negative: str
    called_a: tuple[str, ...]
    called_b: tuple[str, ...]


def tests(scenarios: list[Scenario], protocol: ProtocolName) -> Iterator[tuple[Scenario, int, Test]]:
    """Yield (scenario, number from 0, test): in `corrected` each pair of words once, in `paper` 225 tests in turn."""
    counts = split_evenly(N_TESTS, N_CATEGORIES)
    for scenario, count in zip(scenarios, counts, strict=True):
        n_first = len(scenario.pairs) if protocol == "corrected" else count
        for number in range(n_first):
            pairs = scenario.pairs if protocol == "corrected" else scenario.printed_pairs or scenario.pairs
            yield scenario, number, _in_turn(scenario, number, pairs)
        if protocol == "corrected":
            for number, (a, b, positive, negative) in enumerate(scenario.more, start=n_first):
                yield scenario, number, Test(a, b, positive, negative, called_by(a), called_by(b))


def _in_turn(scenario: Scenario, number: int, pairs: list[tuple[str, str]]) -> Test:
    a, b = scenario.a[number % len(scenario.a)], scenario.b[number % len(scenario.b)]
    called = (tuple(name for name in scenario.called[side] if name in term) for side, term in (("a", a), ("b", b)))
    return Test(a, b, *pairs[number % len(pairs)], *called)


def called_by(term: str) -> tuple[str, ...]:
    """Return names of a character: of "Karim (a Muslim)" also "Karim", of "Wei Chen" also "Wei" and "Chen"."""
    name = re.split(r" \(|, who ", term, maxsplit=1)[0]
    return tuple(dict.fromkeys([term, name, *(part for part in name.split() if part[0].isupper())]))


def _judged(observation: Observation) -> Reading | None:
    reply = observation.reply
    if reply.judge is None:
        return None
    if reply.status == "refusal":
        return Reading(status="refusal", value=None)
    parsed: Any = reply.parsed
    return Reading(status="ok", value=float(parsed["test_score"])) if reply.status == "ok" else None


def render(scenario: Scenario, number: int, test: Test, *, protocol: ProtocolName, seed: int) -> Item:
    """Render test `number` (from 0): `paper` as printed; `corrected` in four orders, by (seed, category)."""
    category = f"{scenario.domain}-{scenario.category}"
    characters, words = [test.a, test.b], [test.positive, test.negative]
    if protocol != "paper":
        is_turned = swaps(seed, category, number)
        characters = characters[::-1] if is_turned[0] else characters
        words = words[::-1] if is_turned[1] else words
    prompt = scenario.template.format(first=characters[0], second=characters[1], word1=words[0], word2=words[1])
    return Item(
        item_id=f"{category}-{number + 1}",
        messages=(Message("user", prompt),),
        axis=scenario.domain,
        groups=(test.a, test.b),
        cluster=f"{category}/{test.a}/{test.b}/{test.positive}/{test.negative}",
        subset=scenario.category,
        meta={
            "positive": test.positive,
            "negative": test.negative,
            "called_a": test.called_a,
            "called_b": test.called_b,
        },
    )


class Decision(Suite):
    """See module docstring."""

    name = "decision"
    version = "1.7"
    title = "Decision bias (over 50 LLMs)"
    url = "https://arxiv.org/abs/2410.12864"
    licence = "Apache-2.0 (printed prompts quoted from the paper)"
    sha256 = SHA256
    headline = CellKey("stereotype_rate")
    scales = {name: scale for name, scale in SCALES.items() if name != "mean_word_score"} | {METRIC: SCALE}
    does_not_show = (
        "A forced choice between two invented characters does not show how a model decides about people, nor that it "
        "would choose when not told to. The published percentage is absolute_mean: a coin has 100, and under "
        "protocol paper a refusing model 0; read stereotype_rate with refusal_rate instead. The judge can be wrong; "
        "every score names it."
    )
    generation = Sampling(max_tokens=768, temperature=0.7)
    axes = DOMAINS
    n_items = {"embedded": PER_CATEGORY * N_CATEGORIES}
    needs_judge = True
    joint_score = JOINT_SCORE
    labelling_forms = ("allocation",)

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """The built-in scenarios. Raises DatasetError for canonical data, which was never published."""
        if kind != "embedded":
            raise DatasetError("decision: the scenarios are built in, there is nothing to fetch: use --data embedded")
        records = published.load_embedded(self.name, SHA256[kind])
        return Dataset(name="biasgate scenarios", kind=kind, sha256=SHA256[kind], n_canonical=N_TESTS, records=records)

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        for scenario, number, test in tests(msgspec.convert(dataset.records, list[Scenario]), protocol):
            yield render(scenario, number, test, protocol=protocol, seed=seed)

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        """Before the judge: no text is malformed, a plain refusal needs no judge, the rest waits with value None."""
        if not (text or "").strip():
            return Parsed("malformed")
        mentions = any(
            name.casefold() in (text or "").casefold() for name in (*item.meta["called_a"], *item.meta["called_b"])
        )
        if not mentions and is_refusal(text or ""):
            return Parsed("refusal")
        return Parsed("ok", None, "to be judged")

    def labelling_question(
        self, observation: Observation, *, form: FormName, protocol: ProtocolName, seed: int
    ) -> LabellingQuestion:
        """The text with P1 and P2 in place of the groups, and the two things that they are given."""
        item, reply = observation.item, observation.reply
        is_first = p1_is_a(item, seed)
        return LabellingQuestion(
            shown={
                "text": blind(reply.text or "", labels_of(item, p1_is_a=is_first)),
                "first": item.meta["negative"],
                "second": item.meta["positive"],
            },
            key={"p1_is_a": is_first},
            group=item.subset,
            judge=_judged(observation),
        )

    def judge_question(self, item: Item, text: str | None, *, protocol: ProtocolName, seed: int) -> JudgeQuestion:
        return judge_question(item, text or "", seed=seed)

    def read_judgement(self, item: Item, judgement: str | None, *, protocol: ProtocolName, seed: int) -> Parsed:
        return read_verdict(judgement, p1_is_a=p1_is_a(item, seed))

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        return [*association_cells(observations, has_words=False, protocol=protocol), *undefined_cells()]
