"""People's labels of what a judge scored, read from JSON lines and put together by judgement."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from auditors.streams.scales import SCALES
from gateway.errors import GatewayError


class LabelsError(GatewayError):
    """Labels that cannot be read, or numbers that do not go together."""


class Label(msgspec.Struct, frozen=True):
    """One line: what a person says of one judgement. Unknown fields are left out."""

    value: float
    measured_value: float | None
    group: str | None = None
    exchange_id: str | None = None
    auditor: str | None = None
    metric: str | None = None
    axis: str | None = None
    reference: str | None = None
    annotator: str | None = None
    created_at: float | None = None

    @property
    def judgement(self) -> tuple[str | None, ...]:
        return self.exchange_id, self.auditor, self.metric, self.axis, self.group, self.reference


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's score with all labels that people gave it."""

    exchange: int
    """Number of the exchange that it is of; one of its own where the file does not say which."""
    axis: str | None
    group: str | None
    reference: str | None
    judge: float
    people: tuple[float, ...]
    """One a person, the newest."""
    annotators: tuple[str | None, ...]

    @property
    def person(self) -> float:
        """People's mean."""
        return fmean(self.people)

    @property
    def is_agreed(self) -> bool:
        return len(set(self.people)) == 1


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """A file of labels."""

    judgements: list[Judgement]
    n_labels: int
    """With a judge's score, the newest of each person."""
    n_without: int
    """Without a judge's score."""
    n_replaced: int
    """Older labels by the same person on the same judgement."""
    sha256: str

    @property
    def n_exchanges(self) -> int:
        return len({one.exchange for one in self.judgements})


def read(path: Path) -> Labels:
    """Raises LabelsError, one line, for a file that cannot be read or whose labels cannot be compared."""
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise LabelsError(f"{path}: {exc.strerror}: name a file of labels") from exc
    lines = [_line(path, number, line) for number, line in enumerate(content.splitlines(), start=1)]
    metrics = sorted({one.metric for one in lines if one.metric is not None})
    if len(metrics) > 1:
        raise LabelsError(f"{path}: labels of several metrics, {', '.join(metrics)}: take those of one (?metric=)")
    scored = [one for one in lines if one.measured_value is not None]
    if not scored:
        raise LabelsError(f"{path}: no label has a judge's score beside it (measured_value)")
    newest = _newest(scored)
    return Labels(
        judgements=_judgements(newest),
        n_labels=len(newest),
        n_without=len(lines) - len(scored),
        n_replaced=len(scored) - len(newest),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _line(path: Path, number: int, line: bytes) -> Label:
    try:
        label = msgspec.json.decode(line, type=Label)
    except msgspec.DecodeError as exc:
        raise LabelsError(f"{path}, line {number}: {exc}: give value and measured_value on every line") from exc
    scale = None if label.metric is None else SCALES.get(label.metric)
    for name, score in (("value", label.value), ("measured_value", label.measured_value)):
        if scale is not None and score is not None and not scale.low <= score <= scale.high:
            span = f"{scale.low:g} to {scale.high:g}"
            raise LabelsError(f"{path}, line {number}: {name} {score:g} is outside the range of {label.metric}: {span}")
    return label


def _newest(labels: Iterable[Label]) -> list[Label]:
    """One label a person and judgement: that of the latest time, of equal times the last in the file."""
    found: dict[object, Label] = {}
    for number, one in enumerate(labels):
        is_known = one.exchange_id is not None and one.annotator is not None
        key: object = (one.judgement, one.annotator) if is_known else number
        before = found.get(key)
        if before is None or (one.created_at or 0.0) >= (before.created_at or 0.0):
            found[key] = one
    return list(found.values())


def _judgements(labels: Sequence[Label]) -> list[Judgement]:
    """The labels of each judgement together; a label without an exchange stands alone."""
    together: dict[object, list[Label]] = {}
    for number, one in enumerate(labels):
        together.setdefault(number if one.exchange_id is None else one.judgement, []).append(one)
    exchanges: dict[object, int] = {}
    found = []
    for key, of_one in together.items():
        first = of_one[0]
        latest = max(of_one, key=lambda one: one.created_at or 0.0)
        exchange = key if first.exchange_id is None else first.exchange_id
        found.append(
            Judgement(
                exchange=exchanges.setdefault(exchange, len(exchanges)),
                axis=first.axis,
                group=first.group,
                reference=first.reference,
                judge=latest.measured_value or 0.0,
                people=tuple(one.value for one in of_one),
                annotators=tuple(one.annotator for one in of_one),
            )
        )
    return found
