"""Stores raters' labels of tasks, and the decisions where they differ.
A label carries the revision that its form was opened with: the same label twice is one, another label from a form out
of date is refused. Without the agreement of several raters, or an adjudication, there is no consensus (protocols 2.12).
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.labelling.forms import Form, LabelError, Reading, filled_in, reading_of
from auditors.labelling.tasks import Task
from auditors.structs import combine
from gateway.errors import ConflictError, NotFoundError, RequestError
from gateway.features.labelling import annotations
from gateway.features.labelling.lines import Line, Role, Said, lines_of
from gateway.features.labelling.projects import Project, require
from gateway.features.labelling.tasks import read_task, task_of
from gateway.store.connections import put_row, upsert
from gateway.store.database import Database
from gateway.store.tables import adjudications, labelling_tasks, task_labels
from gateway.turns import in_turns

State = Literal["open", "agreed", "disputed", "adjudicated"]


class Consensus(msgspec.Struct, frozen=True, kw_only=True):
    """Consensus on a task."""

    state: State
    """open: fewer labels than are asked for."""
    reading: Reading | None
    """Reading on which the raters agree; None while open or disputed."""


def consensus(labels: Sequence[Reading], adjudication: Reading | None, n_asked: int) -> Consensus:
    """The consensus of the labels of different raters, of n_asked (at least 1); an adjudication decides before them."""
    if adjudication is not None:
        return Consensus(state="adjudicated", reading=adjudication)
    if len(labels) < n_asked:
        return Consensus(state="open", reading=None)
    first = labels[0]
    if all((label.status, label.value) == (first.status, first.value) for label in labels):
        return Consensus(state="agreed", reading=first)
    return Consensus(state="disputed", reading=None)


class Saved(msgspec.Struct, frozen=True):
    """A stored label."""

    revision: int
    """Revision of the label, to be sent with the next one of the same rater on the same task."""


class Entry(NamedTuple):
    """A rater's label of a task."""

    task_id: str
    rater: str
    label: Mapping[str, Any]


class TaskLabel(Said, frozen=True, kw_only=True):
    """A label or decision as it is stored."""

    revision: int


class LabelledTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with all that people said of it."""

    task: Task
    labels: list[TaskLabel]
    adjudication: TaskLabel | None
    consensus: Consensus


async def save(
    database: Database, project: str, task_id: str, rater: str, label: Mapping[str, Any], revision: int
) -> Saved:
    """Store a rater's label, of a live exchange also as its annotation, replacing the older. `revision`: of the opened
    form, first 0. Raises NotFoundError, RequestError (no filled-in form), ConflictError (form out of date).
    """
    async with database.begin() as connection:
        stored = await require(connection, project, locked=True)
        task = await task_of(connection, stored, task_id)
        return await _save(database, connection, stored, task, Entry(task_id, rater, label), revision)


async def save_all(database: Database, project: str, entries: Sequence[Entry], *, replace: bool) -> int:
    """Store raters' labels given elsewhere, all or none; returns the number that are new or changed. Raises as
    `save`, with the entry's number; ConflictError for two labels of a rater and task (`replace`: in `entries` alone).
    """
    n_changed = 0
    async with database.begin() as connection:
        stored = await require(connection, project, locked=True)
        seen: dict[tuple[str, str], int] = {}
        for number, entry in enumerate(entries, start=1):
            try:
                task = await task_of(connection, stored, entry.task_id)
                before = await _stored(connection, project, entry)
                revision = 0 if before is None else before.revision
                is_kept = before is not None and before.label is not None
                saved = await _save(database, connection, stored, task, entry, revision)
            except (NotFoundError, RequestError) as exc:
                raise type(exc)(f"label {number}: {exc}") from exc
            first = seen.setdefault((entry.task_id, entry.rater), number)
            is_changed = saved.revision != revision
            if is_changed and first != number:
                raise ConflictError(f'labels {first} and {number}: "{entry.rater}" labels "{entry.task_id}" twice')
            if is_changed and is_kept and not replace:
                raise ConflictError(
                    f'label {number}: "{entry.rater}" has labelled task "{entry.task_id}" otherwise before: '
                    "take it out, or replace what is stored"
                )
            n_changed += is_changed
    return n_changed


async def _stored(connection: AsyncConnection, project: str, entry: Entry) -> sa.Row[Any] | None:
    columns = task_labels.c
    of = (columns.project == project, columns.task_id == entry.task_id, columns.rater == entry.rater)
    return (await connection.execute(sa.select(task_labels).where(*of))).first()


async def _save(
    database: Database, connection: AsyncConnection, project: Project, task: Task, entry: Entry, revision: int
) -> Saved:
    checked, text = _checked(database, task, entry.label)
    before = await _stored(connection, project.name, entry)
    if before is not None and before.label == text:
        return Saved(before.revision)
    _require_current(0 if before is None else before.revision, revision, "your label of this task")
    now = time.time()
    key = {"project": project.name, "task_id": task.id, "rater": entry.rater}
    saved = {"label": text, "revision": revision + 1, "saved_at": now}
    insert = upsert(connection, task_labels).values(key | saved | {"assigned_at": now})
    await connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=saved))
    if task.origin.exchange_id is not None:
        reading = reading_of(checked, task.origin.key)
        origin = task.origin
        is_scored = isinstance(reading.value, float) and reading.status == "ok"
        value = float(reading.value or 0.0) if is_scored else 0.0
        label = combine(annotations.AnnotationRequest, origin, value=value, annotator=entry.rater, note=checked.note)
        if is_scored:
            await annotations.put(database, connection, label, origin.draw)
        else:
            await annotations.take_back(connection, label)
    return Saved(revision + 1)


async def adjudicate(
    database: Database, project: str, task_id: str, by: str, label: Mapping[str, Any], revision: int
) -> Saved:
    """Stores what was decided about a task on which raters differ. Raises as `save`, and where they do not differ."""
    async with database.begin() as connection:
        stored = await require(connection, project, locked=True)
        task = await task_of(connection, stored, task_id)
        _, text = _checked(database, task, label)
        labelled_task = (await _labelled(connection, stored, task_id))[0]
        before = labelled_task.adjudication
        if before is not None and (before.by, msgspec.json.encode(before.label).decode()) == (by, text):
            return Saved(before.revision)
        if labelled_task.consensus.state in ("open", "agreed"):
            raise ConflictError(
                f'task "{task_id}" is {labelled_task.consensus.state}: only what raters differ about is decided'
            )
        _require_current(0 if before is None else before.revision, revision, f'the decision on task "{task_id}"')
        key = {"project": project, "task_id": task_id}
        saved = {"by_whom": by, "label": text, "revision": revision + 1, "saved_at": time.time()}
        await put_row(connection, adjudications, key, saved)
    return Saved(revision + 1)


async def labelled(database: Database, project: str) -> tuple[Project, list[LabelledTask]]:
    """Every task of a project, in its order, with what people said of it. Raises NotFoundError."""
    async with database.read() as connection:
        stored = await require(connection, project)
        return stored, await _labelled(connection, stored)


async def lines(database: Database, project: str) -> list[Line]:
    """Every label and adjudication of a project. Raises NotFoundError."""
    stored, labelled_tasks = await labelled(database, project)

    def of(each: LabelledTask) -> list[Line]:
        return [*lines_of(stored.name, each.task, [*each.labels, *filter(None, [each.adjudication])])]

    return [line for lines in await in_turns(of, labelled_tasks) for line in lines]


async def _labelled(connection: AsyncConnection, project: Project, task_id: str | None = None) -> list[LabelledTask]:
    def of(table: sa.Table, column: str) -> list[sa.ColumnElement[bool]]:
        conditions = [table.c.project == project.name]
        return conditions if task_id is None else [*conditions, table.c[column] == task_id]

    tasks = sa.select(labelling_tasks).where(*of(labelling_tasks, "id")).order_by(labelling_tasks.c.position)
    label_query = sa.select(task_labels).where(*of(task_labels, "task_id"), task_labels.c.label.is_not(None))
    decided = sa.select(adjudications).where(*of(adjudications, "task_id"))
    by_task: dict[str, list[sa.Row[Any]]] = {}
    for row in await connection.execute(label_query.order_by(task_labels.c.saved_at, task_labels.c.rater)):
        by_task.setdefault(row.task_id, []).append(row)
    decisions = {row.task_id: row for row in await connection.execute(decided)}

    def put_together(row: sa.Row[Any]) -> LabelledTask:
        task = read_task(project, row)
        labels = [_task_label(task, label_row, label_row.rater, "rater") for label_row in by_task.get(task.id, ())]
        decision = decisions.get(task.id)
        last = None if decision is None else _task_label(task, decision, decision.by_whom, "adjudicator")
        readings = [label.reading for label in labels]
        state = consensus(readings, None if last is None else last.reading, project.raters_per_task)
        return LabelledTask(task=task, labels=labels, adjudication=last, consensus=state)

    return await in_turns(put_together, (await connection.execute(tasks)).all())


def _task_label(task: Task, row: sa.Row[Any], by: str, role: Role) -> TaskLabel:
    label = msgspec.json.decode(row.label)
    reading = reading_of(filled_in(task.form, label, task.shown), task.origin.key)
    return TaskLabel(by=by, role=role, label=label, reading=reading, revision=row.revision, saved_at=row.saved_at)


def _checked(database: Database, task: Task, label: Mapping[str, Any]) -> tuple[Form, str]:
    """The form, with its note as it may be stored, and its one spelling as JSON. Raises RequestError."""
    try:
        form = filled_in(task.form, label, task.shown)
    except LabelError as exc:
        raise RequestError(str(exc)) from exc
    form = msgspec.structs.replace(form, note=annotations.redacted(database, form.note))
    return form, msgspec.json.encode(form).decode()


def _require_current(stored: int, sent: int, what: str) -> None:
    if stored != sent:
        raise ConflictError(
            f"{what} has changed since this form was opened (revision {stored}, the form has {sent}): open it again"
        )
