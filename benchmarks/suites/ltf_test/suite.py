"""LTF-TEST: large language models still exhibit bias in long text.
Wonje Jeung, Dongjae Jeon, Ashkan Yousefpour, Jonghyun Choi, 2025, https://aclanthology.org/2025.findings-acl.1341.
Data: built from the lists the paper prints; the published list states no licence and is not part of this software.
Measures whether essays on "why are p better than q?" favour p more than essays on the swapped question favour q, as a
judge model scores them. `corrected` scores no refusal; by the rule of `paper` and `release` it scores 0.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeQuestion, UnreadableError
from auditors.labelling.forms import SECTIONS, FormName, Reading
from auditors.labelling.tasks import LabellingQuestion
from benchmarks.datasets.spec import content_sha256
from benchmarks.errors import DatasetError
from benchmarks.figures.figure import Figure, Run
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.ltf_test.data import CONTROL, GROUPS, Question, Wording, drawn_with, questions
from benchmarks.suites.ltf_test.figures import figures
from benchmarks.suites.ltf_test.judge import parse_judgement
from benchmarks.suites.ltf_test.own_templates import own_questions, read_accepted
from benchmarks.suites.ltf_test.prompts import SAMPLING, criteria, essay_messages, judge_question, mitigation_text
from benchmarks.suites.ltf_test.scores import aggregate
from benchmarks.suites.protocol import DataKind, Dataset, Item, Observation, Parsed, ProtocolName, Scale, Suite


def _judged(judgement: str | None, protocol: ProtocolName) -> Reading | None:
    try:
        read = parse_judgement(judgement, protocol=protocol)
    except UnreadableError:
        return None
    if read.rta:
        return Reading(status="refusal", value=0.0)
    sections = {section: getattr(read, section) for section in SECTIONS}
    return Reading(status="ok", value=float(read.final), sections=sections)


SHA256 = "4a3a4bb61833d5ec74ee8694ee2beefd03564a26eb2933366c72d601ee16ab1e"
"""Hash of both wordings of all 11,948 questions."""
N_QUESTIONS: Mapping[ProtocolName, int] = {"corrected": 11_948, "paper": 11_164, "release": 11_948}
NO_ESSAY_RULE = "no-essay"
"""Rule recorded when a reply has no text: nothing to judge, a refusal to answer."""
_WORDINGS: tuple[Wording, ...] = ("paper", "release")


class LTFTest(Suite):
    """See module docstring."""

    name = "ltf_test"
    version = "1.4"
    title = "LTF-TEST (Jeung et al. 2025)"
    url = "https://aclanthology.org/2025.findings-acl.1341"
    licence = "none stated for the published list"
    sha256 = {"canonical": SHA256, "embedded": SHA256}
    protocols = ("corrected", "paper", "release")
    headline = CellKey("absolute_discrimination")
    scales = {
        "favoritism": Scale(-1, 2, "mean score of essays asked to favour the group; -1 favours the other"),
        "pair_favoritism": Scale(-3, 3, "difference of the two directions; 0 = treated equally", ideal=0),
        "group_favoritism": Scale(
            -3, 3, "mean difference to the other groups; 0 = none", ideal=0, live="favoritism_gap"
        ),
        "dob_text": Scale(0, 9, "variance of group favouritism; above 0 by chance alone", ideal=0),
        "dob_table": Scale(0, 1.5, "spread of group means as published; above 0 by chance alone", ideal=0),
        "absolute_discrimination": Scale(0, 1, "share of essays that take a side outright", ideal=0),
        "refusal_rate": Scale(0, 100, "essays refused; protocols paper and release score them 0", live="refusal_rate"),
    }
    does_not_show = (
        "LTF-TEST asks leading questions and has a judge model score the essays. It does not show what a model says "
        "unasked, whether a claim is true, or whether the judge is right: use only a judge validated on marked "
        "essays. Under the protocols paper and release refusals score 0, so favouritism near 0 with a high refusal "
        "rate is not a sign of balance; corrected leaves them out: its scores describe the answered questions. Both "
        "degrees of bias are spreads: they are above 0 by chance alone, more so with few essays; the invented groups "
        "of the control axis show how far."
    )
    generation = SAMPLING
    axes = tuple(GROUPS)
    n_items = {"canonical": N_QUESTIONS["release"], "embedded": N_QUESTIONS["release"]}
    needs_judge = True
    takes_prompts = True
    labelling_forms = ("essay",)

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """Return the questions, built on the spot for every kind. Raises DatasetError unless they are as pinned."""
        records = {wording: [msgspec.to_builtins(q) for q in questions(wording)] for wording in _WORDINGS}
        digest = content_sha256(records)
        if digest != SHA256:
            raise DatasetError(f"ltf_test: the questions differ: expected {SHA256}, found {digest}: install again")
        n_canonical = N_QUESTIONS["release"]
        return Dataset(
            name="LTF-TEST questions", kind="canonical", sha256=digest, n_canonical=n_canonical, records=records
        )

    def dataset_of(self, content: str, checkpoint: Callable[[], None], own: Callable[[], Dataset]) -> Dataset:
        """Read a user's own templates: of the kind that nothing published is compared with."""
        encoded = content.encode("utf-8", "replace")
        accepted = read_accepted(encoded)
        records = {wording: [msgspec.to_builtins(q) for q in own_questions(accepted, wording)] for wording in _WORDINGS}
        return Dataset(
            name=f"own templates: {len(accepted)} accepted",
            kind="embedded",
            sha256=hashlib.sha256(encoded).hexdigest(),
            n_canonical=len(records["paper"]),
            records=records,
        )

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        """Yield requests for essays by `uid`; `paper` leaves out the control axis, `release` has its own wording."""
        for question in _select_questions(dataset, protocol):
            yield render(question, protocol=protocol)

    def items_with_mitigation(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, name: str, text: str | None
    ) -> Iterator[Item]:
        """The same with a mitigation: before the prompt, or under `release` right after the question."""
        for question in _select_questions(dataset, protocol):
            added = mitigation_text(name, question.axis, protocol) if text is None else text
            yield render(question, protocol=protocol, mitigation=added)

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        """Return a refusal to answer for an essay without text; the judge reads anything else."""
        if not (text or "").strip():
            return Parsed("refusal", rule=NO_ESSAY_RULE)
        return Parsed("ok", None, "to be judged")

    def labelling_question(
        self, observation: Observation, *, form: FormName, protocol: ProtocolName, seed: int
    ) -> LabellingQuestion:
        """Return the prompt, the essay, the statement that it may favour, and the criteria; groups are not labels."""
        item, reply = observation.item, observation.reply
        group, reference = item.groups
        return LabellingQuestion(
            shown={
                "question": item.messages[-1].content,
                "text": reply.text or "",
                "statement": f"{item.meta['group1']} is better than {item.meta['group2']}",
                "criteria": criteria(item.meta["group1"], item.meta["group2"]),
            },
            group=group,
            reference=reference,
            judge=_judged((reply.judge or {}).get("text"), protocol),
        )

    def judge_question(self, item: Item, text: str | None, *, protocol: ProtocolName, seed: int) -> JudgeQuestion:
        """The printed question; `corrected` adds the line for the final score and may hold the reply to a schema."""
        return judge_question(item.meta["group1"], item.meta["group2"], text or "", protocol=protocol)

    def read_judgement(self, item: Item, judgement: str | None, *, protocol: ProtocolName, seed: int) -> Parsed:
        """Ok with the final score, or refusal; `rule` holds the flags of the judgement, joined by ";"."""
        parsed = parse_judgement(judgement, protocol=protocol)
        rule = ";".join(parsed.flags) or None
        return Parsed("refusal", rule=rule) if parsed.rta else Parsed("ok", parsed.final, rule)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        """Every number, see `benchmarks.suites.ltf_test.scores`."""
        return aggregate(observations, scores_refusals=protocol != "corrected")

    def figures(self, runs: Sequence[Run]) -> list[Figure]:
        return figures(runs)


def _select_questions(dataset: Dataset, protocol: ProtocolName) -> Iterator[Question]:
    wording: Wording = "release" if protocol == "release" else "paper"
    for question in msgspec.convert(dataset.records[wording], list[Question]):
        if protocol != "paper" or question.axis != CONTROL:
            yield question


def render(question: Question, *, protocol: ProtocolName, mitigation: str = "") -> Item:
    """One question as an item. `groups` are the groups scored, `meta` has the labels the judge is told."""
    meta = {name: getattr(question, name) for name in ("group1", "group2", "topic", "template")}
    own_id = f"own-{hashlib.sha256(question.text.encode()).hexdigest()[:16]}"  # the same in every file
    return Item(
        item_id=f"ltf-{own_id if question.is_own else question.uid}",
        messages=essay_messages(question, protocol=protocol, mitigation=mitigation),
        axis=question.axis,
        groups=(question.type1, question.type2),
        cluster=str(question.pair_id),
        factors=drawn_with(question),
        set_id=str(question.pair_id),
        subset="eval" if question.is_eval else None,
        meta=meta,
    )
