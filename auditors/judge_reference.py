"""A judge's reference set: fixed replies judged again and again, to see whether the judge moves.
Estimands: "judge_score_shift" (-3..3, mean over a reply's groups), "judge_disagreement" (share of replies where a score
or the refusal differs) and "judge_unread". Replies are drawn with replacement, so the mean given the past is the set's
as long as the judge stays: the drift alarm's promise asks for that.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.errors import BiasgateError
from auditors.judge import PROMPT_SHA256, judge_question
from auditors.judge_verdict import Verdict, parse_verdict
from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, add_weighted, fixed_time_interval
from auditors.streams.scales import scaled
from auditors.text.fencing import mark
from auditors.text.user_files import read_utf8
from auditors.types import JudgeStamp, Measurement, Status

AUDITOR = "judge_reference"
VERSION = "1"
SHIFT, DISAGREEMENT, UNREAD = "judge_score_shift", "judge_disagreement", "judge_unread"
METRICS = (SHIFT, DISAGREEMENT, UNREAD)
LEVEL = 0.95
FEWEST_ITEMS = 10
LARGEST_BYTES = 64 * 1024 * 1024

Place = tuple[str, str]
"""Axis and group."""


class ReferenceSetError(BiasgateError):
    """A file that is not a reference set, or belongs to another judge; the message is a single line."""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's scores for a reply; a group that is not listed has 0."""

    refused: bool
    scores: dict[str, int]
    """Scores by "axis/group"."""


class ReferenceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, and what the judge said of it when the set was made."""

    prompt: str
    reply: str
    recorded: Scored


class ReferenceSet(msgspec.Struct, frozen=True, kw_only=True):
    """A file that `biasgate judge reference create` wrote."""

    schema: int = 1
    judge_model: str
    prompt_sha256: str
    thinking: str
    fingerprints: tuple[str, ...]
    repeats: int
    """Times that each reply was judged again, to learn how much the judge differs from itself."""
    references: dict[str, Interval]
    """Interval of the mean over those repeats by metric, on the 0..1 scale."""
    items: tuple[ReferenceItem, ...]
    created_at: float


def scored(verdict: Verdict) -> Scored:
    return Scored(
        refused=verdict.refused,
        scores={f"{finding.axis}/{finding.group}": int(finding.score) for finding in verdict.findings if finding.score},
    )


def measurements(
    item: ReferenceItem, new_verdict: Scored | None, stamp: JudgeStamp, reason: str | None
) -> list[Measurement]:
    """A measurement of each metric; without `new_verdict` (unreadable) a `reason`. A changed refusal has no shift."""

    def one(metric: str, value: float | None, status: Status = "ok") -> Measurement:
        return Measurement(
            auditor=AUDITOR,
            auditor_version=VERSION,
            metric=metric,
            axis=None,
            value=value,
            status=status,
            reason=None if status == "ok" else reason,
            judge=stamp,
            detail={"thinking": stamp.thinking},
        )

    if new_verdict is None:
        return [one(SHIFT, None, "malformed"), one(DISAGREEMENT, None, "malformed"), one(UNREAD, 1.0)]
    places = sorted(item.recorded.scores.keys() | new_verdict.scores.keys())
    moved = [new_verdict.scores.get(place, 0) - item.recorded.scores.get(place, 0) for place in places]
    is_other = new_verdict.refused != item.recorded.refused
    shift = None if is_other else sum(moved) / len(moved) if moved else 0.0
    return [
        one(SHIFT, shift, "ok" if shift is not None else "refusal"),
        one(DISAGREEMENT, float(is_other or any(moved))),
        one(UNREAD, 0.0),
    ]


def references(again: Sequence[Sequence[Measurement]]) -> dict[str, Interval]:
    """Interval of each metric's mean on 0..1, from judging each reply equally often; 0..1 without a value."""
    intervals = {}
    for metric in METRICS:
        sums = WeightedSums()
        for measurement in (measurement for many in again for measurement in many if measurement.metric == metric):
            if measurement.value is not None:
                sums = add_weighted(sums, scaled(metric, measurement.value), 1.0)
        intervals[metric] = fixed_time_interval(sums, LEVEL) if sums.n > 1 else Interval(0.0, 1.0)
    return intervals


def decoded(content: bytes) -> tuple[ReferenceSet, str]:
    """The set and its digest. Raises ReferenceSetError."""
    try:
        reference_set = msgspec.json.decode(content, type=ReferenceSet)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ReferenceSetError(f"{exc}: name a file that judge reference create wrote") from exc
    if len(reference_set.items) < FEWEST_ITEMS or set(reference_set.references) != set(METRICS):
        raise ReferenceSetError(f"a reference set has {FEWEST_ITEMS} replies or more, and a reference of each metric")
    return reference_set, hashlib.sha256(content).hexdigest()


def read(path: Path) -> tuple[ReferenceSet, str]:
    """The set in a file and its digest. Raises ReferenceSetError, one line that names the file."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ReferenceSetError(f"{path}: a reference set has {LARGEST_BYTES} bytes at most")
        content = read_utf8(path)
    except OSError as exc:
        raise ReferenceSetError(f"{path}: {exc.strerror}: name a file that judge reference create wrote") from exc
    try:
        return decoded(content)
    except ReferenceSetError as exc:
        raise ReferenceSetError(f"{path}: {exc}") from exc


def require_judge(reference_set: ReferenceSet, model: str, thinking: str) -> None:
    """Raises ReferenceSetError if the set is of another judge than the live one."""
    made_of = (reference_set.judge_model, reference_set.prompt_sha256, reference_set.thinking)
    live = (model, PROMPT_SHA256, thinking)
    for name, stored, other in zip(("model", "question", "thinking"), made_of, live, strict=True):
        if stored != other:
            raise ReferenceSetError(f"it is of a judge with {name} {stored}, the auditor's has {other}: make a new set")


async def judged(
    prompt: str, reply: str, judge: JudgeClient, max_tokens: int
) -> tuple[Scored | None, JudgeStamp, str | None]:
    """The judge's scores of a reply (None, with a reason, if unreadable) and its stamp. Raises CompletionError."""
    judgement = await judge.ask(lambda: judge_question(prompt, reply, mark(), max_tokens), parse_verdict)
    verdict = judgement.value
    is_whole = verdict is not None and not verdict.is_partial
    return scored(verdict) if verdict is not None and is_whole else None, judgement.stamp, judgement.reason


async def judged_again(item: ReferenceItem, judge: JudgeClient, max_tokens: int) -> list[Measurement]:
    """Raises CompletionError when the judge's server gives no reply, which says nothing about the judge."""
    verdict, stamp, reason = await judged(item.prompt, item.reply, judge, max_tokens)
    return measurements(item, verdict, stamp, reason)
