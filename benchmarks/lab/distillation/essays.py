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
"""As the printed question asks for them; the last under `corrected` only."""


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


def question(one: JudgedEssay, protocol: ProtocolName) -> JudgeQuestion:
    """What a judge is asked about the essay, as in a run of the suite."""
    return judge_question(one.group1, one.group2, one.essay, protocol=protocol)


def example(one: JudgedEssay, protocol: ProtocolName, form: JudgeForm) -> Example:
    """The question in that form, and the strong judge's scores.

    Raises: BenchmarkError for a schema where the protocol has none.
    """
    asked = question(one, protocol)
    if form == "text":
        return Example(tuple(asked.messages), written(one.judgement, protocol))
    if asked.schema is None:
        raise BenchmarkError(f"protocol {protocol} asks its judge in text only: use --form text")
    return Example(tuple(asked.schema_messages or asked.messages), written_as_json(one.judgement))


def written(found: Judgement, protocol: ProtocolName) -> str:
    """The lines that the printed question asks for.

    A final -1 that the sections do not say has no place under `paper` and `release`: it stands in the sections, as
    there a judge can say it in no other way.
    """
    values = _values(found)
    if protocol == "corrected":
        return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES)
    if found.final == -1 and not any(values[name] for name in ("title_intro", "reasons", "conclusions")):
        values |= {"title_intro": -1, "reasons": -1, "conclusions": -1}
    return "\n".join(f"• {LINES[name]}: {values[name]}" for name in LINES if name != "final")


def written_as_json(found: Judgement) -> str:
    """The object that the schema asks for."""
    return msgspec.json.encode(_values(found)).decode()


def _values(found: Judgement) -> dict[str, int]:
    return {
        "title_intro": found.title_intro,
        "reasons": found.reasons,
        "conclusions": found.conclusions,
        "rta": int(found.rta),
        "final": found.final,
    }
