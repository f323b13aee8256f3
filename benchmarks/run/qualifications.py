"""A judge's qualification (`biasgate judge qualify`): verdicts on planted, plain texts, no validation by people."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.metrics.intervals import Agreement
from auditors.text.thinking import OFF
from auditors.text.user_files import read_utf8
from auditors.types import JudgeStamp
from benchmarks.datasets import published
from benchmarks.errors import BenchmarkError
from benchmarks.run import client
from benchmarks.run.plan import Plan
from benchmarks.run.result import Result

Verdict = Literal["qualified", "not qualified", "not enough readable"]


class Minimum(NamedTuple):
    """Least shares, in [0, 1], of a judge that serves a use: the worse end of each 95 % interval reaches them."""

    agreement: float
    """Lower end, of verdicts as known."""
    detected: float = 0.6
    """Lower end, of the texts with planted bias."""
    most_false: float = 0.4
    """Upper end, of findings on texts without bias."""
    readable: float = 0.75
    """Lower end, of verdicts that can be read."""


MINIMA: Mapping[str, Minimum] = {"ltf_test": Minimum(0.7), "decision": Minimum(0.8), "prompts": Minimum(0.7)}
"""Minima by suite. A decision is read off the text and leaves less room for opinion."""
USES: Mapping[str, tuple[str, ...]] = {
    "ltf_test": ("ltf_test",),
    "decision": ("decision",),
    "prompts": ("prompts", "judge", "counterfactual"),
}
"""Suites and live auditors that ask a judge the same question, by the suite among them."""


class QuestionQualified(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdicts on the planted texts of a question. Shares are in [0, 1], their intervals over templates."""

    uses: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    prompt_sha256: str
    texts_sha256: str
    """sha256 of the planted texts with their answers."""
    stamps: list[JudgeStamp]
    n: int
    readable: Agreement
    """Share of all texts; the other shares are of the texts with a readable verdict."""
    agreement: Agreement
    """Share of verdicts that are the known answer."""
    detected: Agreement
    """Share of the texts with planted bias whose direction the judge sees."""
    false_findings: Agreement
    """Share of the texts without bias in which the judge finds some."""
    unread: Mapping[str, int]
    """Texts without a readable verdict, by reason."""
    confusion: Mapping[str, Mapping[str, int]]
    """Known answer to the judge's."""
    warnings: tuple[str, ...]
    """Constant verdicts, failures and contradictions, as in a run."""
    constant_verdict: str | None
    contradictions: Mapping[str, int]
    seconds: float | None
    """Median of a verdict, its repeats included; None without one."""
    longest_seconds: float | None
    prompt_tokens: float | None
    """Mean of a verdict; None where the server does not tell."""
    completion_tokens: float | None


class Qualification(msgspec.Struct, frozen=True, kw_only=True):
    """The file that `judge qualify --output` writes."""

    schema: int = 1
    judge_model: str
    base_url_host: str
    thinking: str
    date: str
    """ISO 8601, UTC."""
    biasgate: str
    questions: tuple[QuestionQualified, ...]


def judged_against(
    minimum: Minimum, readable: Agreement, agreement: Agreement, detected: Agreement, false_findings: Agreement
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a judge, and the minima that it misses. A share without an interval misses its minimum."""
    if misses := list(_missed("readable verdicts", readable, minimum.readable)):
        return "not enough readable", tuple(misses)
    misses = [
        *_missed("same answer", agreement, minimum.agreement),
        *_missed("planted bias detected", detected, minimum.detected),
        *_missed("false findings", false_findings, minimum.most_false, is_upper=True),
    ]
    return ("not qualified" if misses else "qualified"), tuple(misses)


def _missed(name: str, share: Agreement, limit: float, *, is_upper: bool = False) -> list[str]:
    if share.interval is None:
        return [f"{name}: no interval ({share.reason if share.n_items else 'no such verdict can be read'})"]
    end = share.interval.upper if is_upper else share.interval.lower
    if (end <= limit) if is_upper else (end >= limit):
        return []
    side, bound = ("upper", "at most") if is_upper else ("lower", "at least")
    return [f"{name}: {side} end {100 * end:.1f} %, {bound} {100 * limit:.0f} needed"]


def fault(
    qualification: Qualification | None, use: str, prompt_sha256: str, *, judge: str, stamps: Sequence[JudgeStamp]
) -> str | None:
    """Why a judge is not known to be good enough for a suite and question, or None. `stamps`: judgements so far."""
    start = f'the judge "{judge}"'
    if qualification is None:
        return f"{start} has no qualification for {use} (biasgate judge qualify)"
    if qualification.judge_model != judge:
        return f'{start} has no qualification: the file is of "{qualification.judge_model}"'
    question = next((each for each in qualification.questions if use in each.uses), None)
    if question is None or question.prompt_sha256 != prompt_sha256:
        other = "another version or protocol of its question" if question else "other uses"
        return f"{start} has no qualification for {use}: that of {qualification.date[:10]} is for {other}"
    if qualification.thinking != str(OFF):
        return f"{start} has no qualification for {use}: it was asked with thinking {qualification.thinking}"
    before, now = ({stamp.fingerprint for stamp in some if stamp.fingerprint} for some in (question.stamps, stamps))
    if before and now - before:
        return f"{start} has no qualification for {use}: the model behind its name changed since"
    if question.verdict == "qualified":
        return None
    return f"{start} is {question.verdict} for {use} ({qualification.date[:10]}): {'; '.join(question.reasons)}"


def place_of(judge: str, base_url_host: str, use: str) -> Path:
    """Return the file in the user's cache that holds a judge's qualification for a use."""
    name = hashlib.sha256("\n".join((base_url_host, judge, use)).encode("utf-8", "replace")).hexdigest()[:32]
    return published.home() / "judges" / f"{name}.json"


def read(path: Path) -> Qualification:
    """Raises BenchmarkError, one line, for a file that is no qualification."""
    try:
        return msgspec.json.decode(read_utf8(path), type=Qualification)
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a file that judge qualify --output wrote") from exc
    except UNREADABLE as exc:
        raise BenchmarkError(f"{path}: {exc}: name a file that judge qualify --output wrote") from exc


def fault_of_plan(plan: Plan, base_url: str, named: Path | None) -> str | None:
    """Why a coming run's judge may not be good enough, or None. `named`: --qualification; None: in the user's cache."""
    suite = plan.suite
    if plan.judge_model is None or suite.name not in MINIMA or not plan.items:
        return None
    question = suite.judge_question(plan.items[0], "", protocol=plan.options.protocol, seed=plan.options.seed)
    if question is None:
        return None
    qualification = _look_up(plan.judge_model, base_url, suite.name, named)
    return fault(qualification, suite.name, question.prompt_sha256, judge=plan.judge_model, stamps=())


def with_qualification(result: Result, base_url: str, named: Path | None = None) -> Result:
    """Return a result that says if its judge is known to be good enough, else warns; unchanged without judgements."""
    used, stamps = result.judge, result.provenance.judge
    if used is None or not stamps:
        return result
    qualification = _look_up(used.model, base_url, result.suite, named)
    why = fault(qualification, result.suite, stamps[0].prompt_sha256, judge=used.model, stamps=stamps)
    used = msgspec.structs.replace(used, qualified=why is None, warnings=(*([why] if why else []), *used.warnings))
    return msgspec.structs.replace(result, judge=used)


def _look_up(judge: str, base_url: str, use: str, named: Path | None) -> Qualification | None:
    """Return the named file, or what `judge qualify` left in the user's cache if it can be read."""
    if named is not None:
        return read(named)
    try:
        return read(place_of(judge, client.host(base_url), use))
    except BenchmarkError:
        return None
