"""Writes labels as JSON lines, a line for each rater and task, with the judge's values."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from auditors.labelling.forms import Reading, ReadingStatus
from auditors.labelling.tasks import Task
from auditors.structs import combine

Role = Literal["rater", "adjudicator"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A person's label of a task. `measured_...` is the judge's; null if it gave nothing readable."""

    project: str
    task: str
    suite: str | None
    model: str | None
    item_id: str | None
    sample: int
    exchange_id: str | None
    cluster: str | None
    """Cluster of the task; tasks of the same cluster are not independent."""
    auditor: str | None
    metric: str | None
    axis: str | None
    group: str | None
    reference: str | None
    inclusion_probability: float
    annotator: str
    role: Role
    status: ReadingStatus
    value: float | str | None
    sections: dict[str, int]
    measured_status: ReadingStatus | None
    measured_value: float | str | None
    measured_sections: dict[str, int]
    judge_model: str | None
    prompt_sha256: str | None
    judge_thinking: str | None
    judge_fingerprint: str | None
    label: dict[str, Any]
    """The form as it was filled in."""
    created_at: float


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A person's label of a task."""

    by: str
    role: Role
    label: dict[str, Any]
    reading: Reading
    saved_at: float


def lines_of(project: str, task: Task, labels: Sequence[Said]) -> Iterator[Line]:
    judge = task.origin.judge
    for label in labels:
        yield combine(
            Line,
            label,
            label.reading,
            task.origin,
            project=project,
            task=task.id,
            annotator=label.by,
            measured_status=None if judge is None else judge.status,
            measured_value=None if judge is None else judge.value,
            measured_sections={} if judge is None else judge.sections,
            created_at=label.saved_at,
        )
