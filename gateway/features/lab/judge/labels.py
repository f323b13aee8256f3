"""People's labels of what a judge scored, read from JSON lines and put together by judgement."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeVar

import msgspec

from auditors.streams.scales import SCALES
from auditors.structs import combine
from auditors.text.user_files import read_utf8
from benchmarks.errors import decode_lines
from benchmarks.lab.metrics.agreement import MOST_VALUES
from gateway.errors import GatewayError
from gateway.features.lab.judge.identity import JudgeSeen

T = TypeVar("T")


class LabelsError(GatewayError):
    """Labels that cannot be read, or numbers that do not go together."""


def read_file(path: Path, remedy: str) -> bytes:
    """Raises LabelsError with the remedy for a file that cannot be read or is not UTF-8."""
    try:
        return read_utf8(path)
    except OSError as exc:
        raise LabelsError(f"{path}: {exc.strerror}: {remedy}") from exc


Status = Literal["ok", "refusal", "rejected"]


class Label(JudgeSeen, frozen=True, kw_only=True):
    """One line: a person's label of a judgement. Unknown fields are left out."""

    value: float | str | None
    """A score, or the name of what was chosen; None where the status says why there is none."""
    measured_value: float | str | None
    group: str | None = None
    exchange_id: str | None = None
    auditor: str | None = None
    metric: str | None = None
    axis: str | None = None
    reference: str | None = None
    annotator: str | None = None
    created_at: float | None = None
    task: str | None = None
    """Names the judgement, of a labelling project; without it exchange, auditor, metric and place do."""
    cluster: str | None = None
    """Name of the cluster that it belongs to; without it the exchange."""
    role: Literal["rater", "adjudicator"] = "rater"
    status: Status = "ok"
    measured_status: Status | None = None
    sections: dict[str, int] = msgspec.field(default_factory=dict)
    measured_sections: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def judgement(self) -> tuple[str | None, ...] | None:
        """Key that tells its judgement from others; None where nothing does."""
        if self.task is not None:
            return (self.task,)
        if self.exchange_id is None:
            return None
        return self.exchange_id, self.auditor, self.metric, self.axis, self.group, self.reference


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement, with the judge's score and all labels that people gave it."""

    exchange: int
    """Number of the exchange that it is of, or of what it hangs together with; its own where the file names none."""
    axis: str | None
    group: str | None
    reference: str | None
    judge: float | None
    """Score of the judge; None in a file without a judge."""
    people: tuple[float, ...]
    """One a person, the newest."""
    annotators: tuple[str | None, ...]
    decided: float | None = None
    """Decision of an adjudicator, where people differ."""
    parts: Mapping[str, "Parts"] = {}
    """Labels of people and the judge by name of the section, and under "refusal"."""

    @property
    def person(self) -> float:
        """The decision, or else people's mean."""
        return fmean(self.people) if self.decided is None else self.decided

    @property
    def consensus(self) -> float | None:
        """The decision, or else the label on which all people agree; None where they differ without a decision."""
        if self.decided is not None:
            return self.decided
        return self.people[0] if len(set(self.people)) == 1 else None


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a judgement: a section of an essay, or whether it is a refusal (1) or none (0)."""

    people: tuple[int, ...]
    annotators: tuple[str | None, ...]
    judge: int | None
    decided: int | None


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """A file of labels."""

    judgements: list[Judgement]
    names: tuple[str, ...] | None
    """Name of each number that stands for one, in order, where labels are names; None where they are scores."""
    is_of_suite: bool
    n_labels: int
    """Compared: the newest of each person."""
    n_without: int
    """Number of labels without a judge's score, in a file that has any."""
    n_rejected: int
    """Number of labels whose raters found the text unusable."""
    n_unscored: int
    """Refusals in a form that has no score for them."""
    n_replaced: int
    """Older labels by the same person on the same judgement."""
    judges: frozenset[JudgeSeen]
    """Judges that the labels with a judge's score name."""
    sha256: str

    @property
    def n_exchanges(self) -> int:
        return len({judgement.exchange for judgement in self.judgements})


def read(path: Path) -> Labels:
    """Raises LabelsError, one line, for a file that cannot be read or whose labels cannot be compared."""
    return parsed(str(path), read_file(path, "name a file of labels"))


def parsed(path: str, content: bytes) -> Labels:
    """The labels in JSON lines, of a file or a store of this name. Raises LabelsError as `read`."""
    decoded = decode_lines(content, Label, path, "give value and measured_value on every line")
    lines = [_checked(place, line) for place, line in decoded]
    metrics = sorted({line.metric for line in lines if line.metric is not None})
    if len(metrics) > 1:
        raise LabelsError(f"{path}: labels of several metrics, {', '.join(metrics)}: take those of one (?metric=)")
    usable = [line for line in lines if line.status != "rejected"]
    newest = _newest(usable)
    without = {line.judgement for line in lines if line.role == "adjudicator" and line.value is None} - {None}
    scored = [
        label
        for label in newest
        if label.value is not None and (label.judgement is None or label.judgement not in without)
    ]
    judged = [label for label in scored if label.measured_value is not None]
    compared = judged or scored  # without any judge people are compared with one another
    named = [label.judgement for label in compared if label.role == "rater" and label.judgement is not None]
    if not judged and len(set(named)) == len(named):
        raise LabelsError(
            f"{path}: no label has a judge's score (measured_value), and no two people labelled the same reply: "
            "there is nothing to compare"
        )
    names = _names(path, compared)
    return Labels(
        judgements=_judgements(compared, newest, names),
        names=names,
        is_of_suite=all(label.exchange_id is None and label.cluster is not None for label in compared),
        n_labels=sum(label.role == "rater" for label in compared),
        n_without=len(scored) - len(compared),
        n_rejected=len(lines) - len(usable),
        n_unscored=len(newest) - len(scored),
        n_replaced=len(usable) - len(newest),
        judges=frozenset(combine(JudgeSeen, label) for label in judged),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _names(path: str, labels: Sequence[Label]) -> tuple[str, ...] | None:
    values = [value for label in labels for value in (label.value, label.measured_value) if value is not None]
    names = {value for value in values if isinstance(value, str)}
    if not names:
        return None
    if len(names) > MOST_VALUES or any(not isinstance(value, str) for value in values):
        raise LabelsError(
            f"{path}: values are both names and scores, or more than {MOST_VALUES} names: one kind a file"
        )
    return tuple(sorted(names))


def _checked(place: str, label: Label) -> Label:
    if label.value is None and label.status == "ok":
        raise LabelsError(f"{place}: value is null: give a score, or status refusal or rejected")
    scale = None if label.metric is None else SCALES.get(label.metric)
    for name, score in (("value", label.value), ("measured_value", label.measured_value)):
        if scale is not None and isinstance(score, float) and not scale.low <= score <= scale.high:
            span = f"{scale.low:g} to {scale.high:g}"
            raise LabelsError(f"{place}: {name} {score:g} is outside the range of {label.metric}: {span}")
    return label


def _newest(labels: Iterable[Label]) -> list[Label]:
    """One label a person and judgement: that of the latest time, of equal times the last in the file."""
    newest: dict[object, Label] = {}
    for number, label in enumerate(labels):
        is_known = label.judgement is not None and label.annotator is not None
        key: object = (label.judgement, label.role, label.annotator) if is_known else number
        before = newest.get(key)
        if before is None or (label.created_at or 0.0) >= (before.created_at or 0.0):
            newest[key] = label
    return list(newest.values())


def _judgements(compared: Sequence[Label], all_of: Sequence[Label], names: Sequence[str] | None) -> list[Judgement]:
    """Return the labels of each judgement; a label without a judgement stands alone. `all_of` has refusals too."""

    def number(value: float | str | None) -> float | None:
        return float(names.index(value)) if names is not None and isinstance(value, str) else _as_float(value)

    together = _by_judgement(compared)
    with_refusals = _by_judgement(all_of)
    clusters: dict[object, int] = {}
    judgements = []
    for key, of_one in together.items():
        raters = [label for label in of_one if label.role == "rater"]
        decision = max((label for label in of_one if label.role == "adjudicator"), key=_when, default=None)
        if not raters:
            continue
        first = raters[0]
        cluster = first.cluster or first.exchange_id
        judgements.append(
            Judgement(
                exchange=clusters.setdefault(key if cluster is None else cluster, len(clusters)),
                axis=first.axis,
                group=first.group,
                reference=first.reference,
                judge=number(max(raters, key=_when).measured_value),
                people=tuple(number(rater.value) or 0.0 for rater in raters),
                annotators=tuple(rater.annotator for rater in raters),
                decided=None if decision is None else number(decision.value),
                parts=_parts(with_refusals[key]),
            )
        )
    return judgements


def _by_judgement(labels: Sequence[Label]) -> dict[object, list[Label]]:
    together: dict[object, list[Label]] = {}
    for label in labels:
        together.setdefault(id(label) if label.judgement is None else label.judgement, []).append(label)
    return together


def _parts(labels: Sequence[Label]) -> dict[str, Parts]:
    """Sections that all of its labels have, and refusal where the file says of the judge whether it saw one."""
    raters = [label for label in labels if label.role == "rater"]
    decision = max((label for label in labels if label.role == "adjudicator"), key=_when, default=None)
    judge = max(raters, key=_when)
    parts = {}
    for name in judge.measured_sections or raters[0].sections:
        scored = [rater for rater in raters if name in rater.sections]
        if scored:
            parts[name] = Parts(
                people=tuple(rater.sections[name] for rater in scored),
                annotators=tuple(rater.annotator for rater in scored),
                judge=judge.measured_sections.get(name),
                decided=None if decision is None else decision.sections.get(name),
            )
    if judge.task is not None:
        parts["refusal"] = Parts(
            people=tuple(int(rater.status == "refusal") for rater in raters),
            annotators=tuple(rater.annotator for rater in raters),
            judge=None if judge.measured_status is None else int(judge.measured_status == "refusal"),
            decided=None if decision is None else int(decision.status == "refusal"),
        )
    return parts


def _when(label: Label) -> float:
    return label.created_at or 0.0


def _as_float(value: float | str | None) -> float | None:
    return None if value is None else float(value)
