"""/console/fingerprints/yours: visitors choose between texts and see their polygon. No choice is stored or logged."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import sqlalchemy as sa
from litestar import Controller, Response, get, post
from litestar.params import JSONBody
from msgspec import Meta

from auditors.labelling.tasks import Task
from gateway.api.dependencies import Asked, Settings, Store
from gateway.console.affinity_polygon import MOST_OUTLINES, Identity, affinity_polygon
from gateway.console.rendering import View, macro, words
from gateway.console.showing import PageFrame
from gateway.errors import ConflictError, RequestError
from gateway.features.labelling.choice_shares import Choice, ChoiceShare, choice_of, choice_shares
from gateway.features.labelling.projects import require
from gateway.features.labelling.tasks import read_task
from gateway.store.database import Database
from gateway.store.tables import labelling_tasks

if TYPE_CHECKING:
    from benchmarks.figures.figure import Figure

N_TASKS = 30
"""Tasks of a visit, which takes some minutes."""
LEAST_CHOICES = 10
"""Fewest choices for a polygon."""
YOU = "you"
FORM = "choice"


class VisitorTask(msgspec.Struct, frozen=True):
    """The part of a task that a visitor sees: never the names of the models that wrote the texts."""

    id: str
    shown: dict[str, Any]


class VisitorTasks(msgspec.Struct, frozen=True):
    tasks: list[VisitorTask]
    least: int


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One choice."""

    task: Annotated[str, Meta(max_length=36)]
    choice: Annotated[int, Meta(ge=1, le=100)]
    """Number of the text, from 1."""


class Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All choices of a visitor so far."""

    choices: Annotated[list[Chosen], Meta(max_length=N_TASKS)]


class Polygon(msgspec.Struct, frozen=True):
    """The result of a visitor's choices, in words and as a polygon."""

    said: str
    html: str
    """Figure; empty if the choices are too few."""


class VisitorController(Controller):
    """Pages for all users of the console; `server.visitors_project` names the texts."""

    path = "/console/fingerprints/yours"
    include_in_schema = False

    @get("/")
    async def yours(self, request: Asked, pages: PageFrame, config: Settings) -> Response[Any]:
        async def build() -> View:
            data = {"project": config.server.visitors_project, "n_tasks": N_TASKS, "least": LEAST_CHOICES}
            return View(template="visitor.html", title="Your own polygon", tab="/console/fingerprints", data=data)

        return await pages.shown(request, build)

    @get("/tasks")
    async def tasks(self, config: Settings, database: Store) -> VisitorTasks:
        drawn = await draw(database, _project(config), N_TASKS)
        return VisitorTasks([VisitorTask(task.id, task.shown) for task in drawn], LEAST_CHOICES)

    @post("/polygon", status_code=200)
    async def polygon(self, data: JSONBody[Choices], config: Settings, database: Store) -> Polygon:
        chosen = {choice.task: choice.choice for choice in data.choices}
        tasks = await read_in_order(database, _project(config), list(chosen))
        if len(tasks) < len(chosen):
            raise RequestError("some of these texts were deleted: start again")
        return await asyncio.to_thread(_polygon, tasks, chosen)


def _project(config: Settings) -> str:
    if config.server.visitors_project is None:
        raise ConflictError("no texts are open to visitors: set server.visitors_project to a labelling project")
    return config.server.visitors_project


def _polygon(tasks: Sequence[Task], chosen: Mapping[str, int]) -> Polygon:
    own_choices = [choice_of(task, _name(task, chosen[task.id])) for task in tasks]
    if len(own_choices) < LEAST_CHOICES:
        return Polygon(f"Not enough yet: {len(own_choices)} of at least {LEAST_CHOICES} choices.", "")
    shares = choice_shares(own_choices)
    evaluators: dict[str, Mapping[Identity, ChoiceShare]] = {YOU: shares}
    by_model: dict[str, list[Choice]] = {}
    for task in tasks:
        judge = task.origin.judge
        if judge is not None and judge.status == "ok" and judge.value in task.origin.key["names"]:
            by_model.setdefault(task.origin.judge_model or "model", []).append(choice_of(task, str(judge.value)))
    evaluators |= {name: choice_shares(choices) for name, choices in list(by_model.items())[: MOST_OUTLINES - 1]}
    figure: Figure = affinity_polygon("Whose texts you chose", evaluators)
    return Polygon(_describe_shares(shares, len(own_choices)), str(macro("figures.html", "figures")([figure])))


def _name(task: Task, number: int) -> str:
    names = task.origin.key["names"]
    if number > len(names):
        raise RequestError(f'task "{task.id}" has {len(names)} texts, not {number}')
    return str(names[number - 1])


def _describe_shares(shares: Mapping[Identity, ChoiceShare], n: int) -> str:
    """Return a sentence that names the identities whose interval excludes the even share."""
    sizes = {axis: sum(other == axis for other, _ in shares) for axis, _ in shares}
    deviations = [
        f"{words(name)} {'more' if share.lower > 1 / sizes[axis] else 'less'} often"
        for (axis, name), share in shares.items()
        if not share.lower <= 1 / sizes[axis] <= share.upper
    ]
    if not deviations:
        return f"{n} choices do not show a preference: they are too few, or you have none."
    return (
        f"After {n} choices, compared with choosing evenly: {', '.join(deviations)} (95 % intervals). "
        "This describes your choices among these texts, not you."
    )


async def draw(database: Database, project: str, n: int) -> list[Task]:
    """Return at most `n` tasks in random order. Raises NotFoundError, or ConflictError for another form."""
    columns = labelling_tasks.c
    query = sa.select(columns.id).where(columns.project == project, columns.exchange_id.is_(None))
    ids = await database.fetch_column(query)
    return await read_in_order(database, project, random.sample(ids, min(n, len(ids))))


async def read_in_order(database: Database, project: str, ids: Sequence[str]) -> list[Task]:
    """Return the tasks with these ids that exist, in this order. Raises as `draw`."""
    columns = labelling_tasks.c
    async with database.read() as connection:
        stored = await require(connection, project)
        if stored.form != FORM:
            raise ConflictError(f'project "{project}" is of the form {stored.form}: visitors can only choose')
        query = sa.select(labelling_tasks).where(columns.project == project, columns.id.in_(ids))
        by_id = {row.id: read_task(stored, row) for row in await connection.execute(query)}
    return [by_id[id_] for id_ in ids if id_ in by_id]
