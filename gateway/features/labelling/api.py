"""The API of labelling projects: tasks, labels, and decisions where raters differ.
No answer about a task shows a judge's score, or before adjudication another rater's label. A rater's link opens only
that rater's own; an administrator acts under any name.
"""

import asyncio
import hashlib
import random
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from litestar import Controller, Response, delete, get, post, put
from litestar.exceptions import PermissionDeniedException
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta

from auditors.labelling.drawing import Candidate, Select, draw_candidates
from auditors.labelling.forms import FormName, Reading
from auditors.labelling.tasks import Origin, Task
from auditors.metrics.weighting import bounded_weight
from auditors.streams.label_sequence import Draw
from auditors.streams.scales import scaled
from auditors.structs import combine
from gateway.api import access
from gateway.api.access import Access, rater_token
from gateway.api.dependencies import Asked, Entry, Settings, Store
from gateway.api.problems import announced
from gateway.config.schema import Config
from gateway.control_keys import Holder
from gateway.errors import NotFoundError, RequestError
from gateway.features.labelling import annotations, labels, projects, tasks
from gateway.features.labelling.labels import LabelledTask, Saved
from gateway.features.labelling.lines import Line
from gateway.features.labelling.projects import Progress
from gateway.features.labelling.tasks import ShownTask
from gateway.reading.exchange_pages import Wanted, make_page
from gateway.store.calibrations import AUDITOR, METRIC
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria
from gateway.store.labels import pairs
from gateway.store.tables import exchanges, measurements
from gateway.turns import in_turns


async def draw(
    database: Database, *, n: int, seed: int, model: str | None = None, select: Select = "evenly"
) -> list[Task]:
    """Draw tasks of `n` scores; see `auditors.labelling.drawing`. Raises RequestError where there are fewer."""
    columns = measurements.c
    query = (
        sa.select(
            *(columns.id, columns.created_at, columns.stream, columns.metric, columns.value),
            *(columns.inclusion_probability, columns.rate_factor),
            columns.detail.contains('"notes"').label("is_doubted"),
        )
        .select_from(measurements.join(exchanges, columns.exchange_id == exchanges.c.id))
        .where(columns.auditor == AUDITOR, columns.metric == METRIC, columns.value.is_not(None))
        .where(exchanges.c.request_body.is_not(None), exchanges.c.response_body.is_not(None))
        .where(exchanges.c.sender_rate.is_not(None))  # a label's weight is what its probability says
        .order_by(columns.id)
    )
    if model is not None:
        query = query.where(columns.model == model)
    async with database.read() as connection:
        scores = (await connection.execute(query)).all()
        if len(scores) < n:
            raise RequestError(
                f"{len(scores)} scores of the {AUDITOR} have a text that is still stored: ask for no more"
            )
        labelled = {} if select == "evenly" else await pairs(database)
        rng, candidates = random.Random(f"{seed}/live labelling"), await in_turns(_candidate, scores)
        drawn = await asyncio.to_thread(draw_candidates, candidates, n, rng, uuid4().hex, select, labelled)
        chosen = [scores[number] for number, *_ in drawn]
        conditions = (
            columns.id.in_([row.id for row in chosen]),
            columns.created_at.in_({row.created_at for row in chosen}),
        )
        rows = {row.id: row for row in await connection.execute(sa.select(measurements).where(*conditions))}
    return [_task(rows[row.id], draw, inclusion) for row, (_, draw, inclusion) in zip(chosen, drawn, strict=True)]


def _candidate(row: sa.Row[Any]) -> Candidate:
    return Candidate(
        stream=row.stream or "",
        judge=scaled(row.metric, row.value),
        weight=bounded_weight(row.inclusion_probability, row.rate_factor),
        is_neutral=row.value == 0.0,
        is_doubted=bool(row.is_doubted),
    )


def _task(row: sa.Row[tuple[object, ...]], draw: Draw, drawn_with: float) -> Task:
    origin = combine(
        Origin,
        row,
        cluster=row.exchange_id,
        group=row.group_name,
        reference=row.reference_name,
        inclusion_probability=row.inclusion_probability * drawn_with,
        draw=draw,
        judge=Reading(status="ok", value=row.value),
        **annotations.judge_fields(row.judge),
    )
    place = [row.exchange_id, row.auditor, row.metric, row.axis, row.group_name, row.reference_name]
    return Task(
        id=hashlib.sha256(msgspec.json.encode(place)).hexdigest()[:32], form="favouring", shown={}, origin=origin
    )


Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]


class ProjectRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project of live exchanges; `biasgate annotate import` makes one of a run."""

    name: Name
    n: Annotated[int, Meta(ge=1, le=100_000)]
    """Scores of the judge, drawn at random from all whose text is still stored."""
    select: Select = "evenly"
    """most_telling: the more likely, the more a label narrows the interval of `corrected`."""
    model: str | None = None
    """Only exchanges that this model answered."""
    seed: int = 0
    raters_per_task: Annotated[int, Meta(ge=1, le=10)] = 2


class NextRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rater's request for a task."""

    rater: Name | None = None
    """May be left out with a rater's link, which says it."""


class NextTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task that this rater labels next."""

    task: ShownTask | None
    """The next task; None where nothing is left for them."""


class LabelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filled-in form."""

    label: dict[str, Any]
    revision: Annotated[int, Meta(ge=0)]
    """That the form was opened with."""


class Decision(LabelRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision about a task on which raters differ."""

    by: Name


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """One rater's label, as the adjudicator sees it."""

    rater: str
    label: dict[str, Any]
    value: float | str | None
    status: str


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A task on which raters differ."""

    project: str
    id: str
    form: FormName
    shown: dict[str, Any]
    exchange_id: str | None
    opinions: list[Opinion]
    decision: dict[str, Any] | None
    decided_by: str | None
    revision: int
    """Revision of the decision; sent back with a new one."""


class LabellingController(Controller):
    """Projects by name, their tasks by id, labels by rater."""

    path = "/labelling/projects"
    tags = ("labelling",)

    @post("/", summary="Draw live exchanges to label", responses=announced(409))
    async def create(self, data: JSONBody[ProjectRequest], database: Store) -> Progress:
        drawn = await draw(database, n=data.n, seed=data.seed, model=data.model, select=data.select)
        about = {"live": AUDITOR, "model": data.model, "seed": data.seed, "select": data.select}
        await projects.add(database, projects.made_now(data.name, "favouring", data.raters_per_task, about), drawn)
        return await projects.progress(database, data.name)

    @get("/", summary="Projects with their progress", responses=announced())
    async def projects(self, database: Store) -> list[Progress]:
        return await projects.list_projects(database)

    @get("/{project:str}", summary="A project: form, tasks, labels, progress", responses=announced(404))
    async def project(self, project: FromPath[str], database: Store) -> Progress:
        return await projects.progress(database, project)

    @delete("/{project:str}", summary="Delete a project with its labels", responses=announced(404))
    async def remove(self, project: FromPath[str], database: Store) -> None:
        await projects.delete(database, project)

    @post("/{project:str}/next", status_code=200, summary="The rater's next task, or null", responses=announced(404))
    async def next_task(
        self,
        request: Asked,
        project: FromPath[str],
        data: JSONBody[NextRequest],
        database: Store,
        config: Settings,
        access: Entry,
    ) -> NextTask:
        assigned = await tasks.next_task(database, project, _rater_of(request.user, data.rater))
        viewer = _Viewer(request, database, config, access)
        return NextTask(task=None if assigned is None else await viewer.task(assigned))

    @get("/{project:str}/tasks/{task:str}", summary="A task and the rater's own label", responses=announced(404))
    async def task(
        self,
        request: Asked,
        project: FromPath[str],
        task: FromPath[str],
        database: Store,
        config: Settings,
        access: Entry,
        rater: FromQuery[str | None] = None,
    ) -> ShownTask:
        name = _rater_of(request.user, rater)
        task_id = await _task_id(request, database, project, name, task)
        shown_task = await tasks.shown_task(database, project, task_id, name)
        return await _Viewer(request, database, config, access).task(shown_task)

    @put("/{project:str}/tasks/{task:str}/labels/{rater:str}", summary="Label a task", responses=announced(404, 409))
    async def label(
        self,
        request: Asked,
        project: FromPath[str],
        task: FromPath[str],
        rater: FromPath[str],
        data: JSONBody[LabelRequest],
        database: Store,
    ) -> Saved:
        """The same label twice is one; another one from a form that is out of date is a 409."""
        name = _rater_of(request.user, rater)
        task_id = await _task_id(request, database, project, name, task)
        return await labels.save(database, project, task_id, name, data.label, data.revision)

    @get("/{project:str}/disputes", summary="Tasks on which raters differ", responses=announced(404))
    async def disputes(
        self,
        request: Asked,
        project: FromPath[str],
        database: Store,
        config: Settings,
        access: Entry,
        decided: FromQuery[bool] = False,
        limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
    ) -> list[Dispute]:
        """Disputes without a decision; `decided` gives those with one."""
        _, labelled_tasks = await labels.labelled(database, project)
        matches = [
            labelled_task
            for labelled_task in labelled_tasks
            if labelled_task.consensus.state == ("adjudicated" if decided else "disputed")
        ]
        viewer = _Viewer(request, database, config, access)
        return [await viewer.dispute(project, labelled_task) for labelled_task in matches[:limit]]

    @put(
        "/{project:str}/tasks/{task:str}/decision", summary="Decide where raters differ", responses=announced(404, 409)
    )
    async def decide(
        self, project: FromPath[str], task: FromPath[str], data: JSONBody[Decision], database: Store
    ) -> Saved:
        return await labels.adjudicate(database, project, task, data.by, data.label, data.revision)

    @get(
        "/{project:str}/labels",
        summary="Labels and decisions with the judge's scores, JSON lines",
        responses={200: ResponseSpec(list[Line], description="A line each", generate_examples=False), **announced(404)},
    )
    async def labels(self, project: FromPath[str], database: Store) -> Response[bytes]:
        entries = await labels.lines(database, project)
        lines = await in_turns(msgspec.json.encode, entries)
        return Response(b"".join(line + b"\n" for line in lines), media_type="application/x-ndjson")


def _rater_of(holder: Holder, rater: str | None) -> str:
    """Return the acting rater. Raises PermissionDeniedException for another's link, RequestError for a bad name."""
    if holder.role == "rater":
        if rater not in (None, holder.name):
            raise PermissionDeniedException(detail=f'this link is of "{holder.name}": it acts under no other name')
        return holder.name
    if rater is None:
        raise RequestError("the rater's name is missing: send it as rater")
    try:
        return msgspec.convert(rater, Name)
    except msgspec.ValidationError as exc:
        raise RequestError(f"the rater's name: {exc}") from exc


async def _task_id(request: Asked, database: Database, project: str, rater: str, task_or_alias: str) -> str:
    """Return the id of a task. Raises NotFoundError for a link to which the task was not given."""
    token = rater_token(request)
    return task_or_alias if token is None else await tasks.find_alias(database, project, rater, task_or_alias, token)


class _Viewer(NamedTuple):
    request: Asked
    database: Database
    config: Config
    access: Access

    async def task(self, task: ShownTask) -> ShownTask:
        """Return a task with its text; under an alias to a rater's link."""
        token = rater_token(self.request)
        text = await self._text(task.shown, task.exchange_id)
        if token is None:
            return msgspec.structs.replace(task, shown=text)
        return msgspec.structs.replace(task, shown=text, id=tasks.alias_of(task.id, token), exchange_id=None)

    async def dispute(self, project: str, labelled_task: LabelledTask) -> Dispute:
        task, decision = labelled_task.task, labelled_task.adjudication
        return Dispute(
            project=project,
            id=task.id,
            form=task.form,
            shown=await self._text(task.shown, task.origin.exchange_id),
            exchange_id=task.origin.exchange_id,
            opinions=[
                Opinion(rater=label.by, label=label.label, value=label.reading.value, status=label.reading.status)
                for label in labelled_task.labels
            ],
            decision=None if decision is None else decision.label,
            decided_by=None if decision is None else decision.by,
            revision=0 if decision is None else decision.revision,
        )

    async def _text(self, content: dict[str, Any], exchange_id: str | None) -> dict[str, Any]:
        """Return the content that a rater sees; a live exchange's redacted text is on record as any reading."""
        if exchange_id is None:
            return content
        if not self.access.keys and self.request.user.role != "rater":
            raise PermissionDeniedException(
                detail="served text is shown to administrators only: set server.admin_key_env to label live exchanges"
            )
        query = Wanted(criteria=Criteria(auditor=AUDITOR, exchange_ids=[exchange_id]), limit=1)
        page = (await make_page(self.config, query)).rows.read()
        criteria = {"exchange_id": [exchange_id], "for": "labelling"}
        await access.note(self.request, self.database, "read", criteria, len(page))
        if not page:
            raise NotFoundError(f'the exchange "{exchange_id}" has been deleted')
        return content | {"question": page[0].prompt, "text": page[0].reply, "no_text_because": page[0].no_text_because}
