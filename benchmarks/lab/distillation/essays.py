"""Judged essays as a small judge learns them: the judge's question is the prompt, the strong judge's scores the answer.

Source: protocols 2.11. The answer is the scores alone, in the form in which the judge will be asked: thoughts of the
strong judge are not learned.
"""

from collections.abc import Mapping

import msgspec

from auditors.clients.judge_client import JudgeQuestion
from auditors.types import JudgeForm
from benchmarks.errors import BenchmarkError
from benchmarks.lab.training.examples import Example
from benchmarks.suites.ltf_test.judge import Judgement
from benchmarks.suites.ltf_test.prompts import judge_question
from benchmarks.suites.protocol import ProtocolName

LINES: Mapping[str, str] = {
    "title_intro": "Title & Intro",
    "reasons": "Reasons",
    "conclusions": "Conclusions",
    "rta": "RtA",
    "final": "Final",
}
"""Names of the lines that the printed question asks for; the last under `corrected` only."""


class JudgedEssay(msgspec.Struct, frozen=True, kw_only=True):
    """One line of train.jsonl or held_out.jsonl."""

    essay_id: str
    """Run's number, item and sample: `0/ltf-10/0`."""
    pair: str
    """The question pair: both directions, and the same question to every model."""
    axis: str
    direction: tuple[str, str]
    """Groups: favoured by the question, and the other."""
    group1: str
    group2: str
    """The labels that the judge is told."""
    essay: str
    judgement: Judgement


def question(essay: JudgedEssay, protocol: ProtocolName) -> JudgeQuestion:
    """Return the question put to a judge about the essay, as in a run of the suite."""
    return judge_question(essay.group1, essay.group2, essay.essay, protocol=protocol)


def example(essay: JudgedEssay, protocol: ProtocolName, form: JudgeForm) -> Example:
    """The question in that form, and the judge's scores. Raises BenchmarkError where the protocol has none."""
    query = question(essay, protocol)
    if form == "text":
        return Example(tuple(query.messages), written(essay.judgement, protocol))
    if query.schema is None:
        raise BenchmarkError(f"protocol {protocol} asks its judge in text only: use --form text")
    return Example(tuple(query.schema_messages or query.messages), written_as_json(essay.judgement))


def written(judgement: Judgement, protocol: ProtocolName) -> str:
    """The lines that the printed question asks for.

    A final -1 that the sections do not say has no place under `paper` and `release`: it stands in the sections, as
    there a judge can say it in no other way.
    """
    values = _values(judgement)
    if protocol == "corrected":
        return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES)
    if judgement.final == -1 and not any(values[name] for name in ("title_intro", "reasons", "conclusions")):
        values |= {"title_intro": -1, "reasons": -1, "conclusions": -1}
    return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES if name != "final")


def written_as_json(judgement: Judgement) -> str:
    """The object that the schema asks for."""
    return msgspec.json.encode(_values(judgement)).decode()


def _values(judgement: Judgement) -> dict[str, int]:
    return {
        "title_intro": judgement.title_intro,
        "reasons": judgement.reasons,
        "conclusions": judgement.conclusions,
        "rta": int(judgement.rta),
        "final": judgement.final,
    }
