"""The raters' page (/console/labelling), and which models' texts they chose (/console/fingerprints/raters)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Task
from gateway.api.dependencies import Asked, Store
from gateway.console.affinity_polygon import MOST_OUTLINES, affinity_polygon
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import ConflictError
from gateway.features.labelling import labels, projects
from gateway.features.labelling.choice_shares import Choice, choice_of, choice_shares
from gateway.features.labelling.labels import LabelledTask

if TYPE_CHECKING:
    from benchmarks.figures.figure import Figure
from pathlib import Path

from gateway.console.static_files import answer_with

LABELLING_PAGE = "/console/labelling"
FILE = Path(__file__).parent / "labelling.html"


class LabellingPageController(Controller):
    """Open to everybody: the page itself shows nothing of the store."""

    path = LABELLING_PAGE
    include_in_schema = False

    @get("/", sync_to_thread=True)
    def labelling(self) -> Response[bytes]:
        """Draws itself by its script, from the API, for raters who may hold no key of the gateway's other pages."""
        return answer_with(FILE)


FORM = "choice"


class Evaluator(msgspec.Struct, frozen=True, kw_only=True):
    """One who chose, and how often they did not."""

    name: str
    n_choices: int
    n_without: int
    """Refused, rejected or unreadable: in no share."""


class RatersController(Controller):
    """Pages for administrators: raters are named."""

    path = "/console/fingerprints/raters"
    include_in_schema = False

    @get("/")
    async def raters(self, request: Asked, pages: PageFrame, database: Store) -> Response[Any]:
        async def build() -> View:
            choice_projects = [
                project for project in await projects.list_projects(database) if project.project.form == FORM
            ]
            return View(
                template="raters.html", title="Raters", tab="/console/fingerprints", data={"projects": choice_projects}
            )

        return await pages.shown(request, build)

    @get("/{project:str}")
    async def project(self, request: Asked, pages: PageFrame, database: Store, project: FromPath[str]) -> Response[Any]:
        async def build() -> View:
            stored, labelled_tasks = await labels.labelled(database, project)
            if stored.form != FORM:
                raise ConflictError(f'labels of "{project}" are of the form {stored.form}: only a choice has shares')
            evaluators, figure = await asyncio.to_thread(_drawn, labelled_tasks)
            data = {"name": stored.name, "evaluators": evaluators, "drawn": [figure], "most": MOST_OUTLINES}
            title = f"Raters of {stored.name}"
            return View(template="rater_polygon.html", title=title, tab="/console/fingerprints", data=data)

        return await pages.shown(request, build)


def _drawn(labelled_tasks: Sequence[LabelledTask]) -> tuple[list[Evaluator], "Figure"]:
    """People by number of labels, after the models that chose between the same texts."""
    by_evaluator: dict[str, list[tuple[Task, Reading]]] = {}
    for labelled_task in labelled_tasks:
        origin = labelled_task.task.origin
        if origin.judge is not None:
            by_evaluator.setdefault(origin.judge_model or "model", []).append((labelled_task.task, origin.judge))
    people: dict[str, list[tuple[Task, Reading]]] = {}
    for labelled_task in labelled_tasks:
        for label in labelled_task.labels:
            people.setdefault(label.by, []).append((labelled_task.task, label.reading))
    for name, readings in sorted(people.items(), key=lambda person: (-len(person[1]), person[0])):
        by_evaluator[f"{name} (rater)"] = readings
    choices = {name: _choices(readings) for name, readings in by_evaluator.items()}
    evaluators = [
        Evaluator(name=name, n_choices=len(choice), n_without=len(by_evaluator[name]) - len(choice))
        for name, choice in choices.items()
    ]
    shares: Mapping[str, Any] = {name: choice_shares(choice) for name, choice in choices.items() if choice}
    return evaluators, affinity_polygon("Whose texts were chosen", shares)


def _choices(readings: Sequence[tuple[Task, Reading]]) -> list[Choice]:
    return [
        choice_of(task, str(reading.value))
        for task, reading in readings
        if reading.status == "ok" and reading.value in task.origin.key["names"]
    ]
