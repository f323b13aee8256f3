"""Labels as JSON lines: one a rater and task, with what the judge said beside it, for other programs to read."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from auditors.labelling.forms import Reading, ReadingStatus
from auditors.labelling.tasks import Origin, Task

Role = Literal["rater", "adjudicator"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What one person says of one task. `measured_...` is the judge's; null where it said nothing readable."""

    project: str
    task: str
    suite: str | None
    model: str | None
    item_id: str | None
    sample: int
    exchange_id: str | None
    cluster: str | None
    """Tasks of one cluster are not independent."""
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


_OF_ORIGIN = set(Line.__struct_fields__) & set(Origin.__struct_fields__)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A person's label of a task."""

    by: str
    role: Role
    label: dict[str, Any]
    reading: Reading
    saved_at: float


def lines_of(project: str, task: Task, said: Sequence[Said]) -> Iterator[Line]:
    """A line for each label."""
    origin, judge = task.origin, task.origin.judge
    of_task = {name: getattr(origin, name) for name in _OF_ORIGIN}
    for one in said:
        yield Line(
            project=project,
            task=task.id,
            annotator=one.by,
            role=one.role,
            status=one.reading.status,
            value=one.reading.value,
            sections=one.reading.sections,
            measured_status=None if judge is None else judge.status,
            measured_value=None if judge is None else judge.value,
            measured_sections={} if judge is None else judge.sections,
            label=one.label,
            created_at=one.saved_at,
            **of_task,
        )
