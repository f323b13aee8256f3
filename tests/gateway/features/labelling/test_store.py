"""Labelling projects in the store: who gets which task; no label is lost, doubled or shown to the wrong eyes."""

import asyncio
from typing import Any

import pytest

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from gateway.errors import ConflictError, NotFoundError
from gateway.features.labelling import labels, projects, tasks
from gateway.store.database import Database

pytestmark = pytest.mark.stores("sqlite")

FAVOURING = {"score": 1}
OTHER = {"score": 2}


def made(number: int, **origin: Any) -> Task:
    judge = Reading(status="ok", value=1.0)
    shown = {"text": f"text {number}"}
    return Task(id=f"t{number}", form="favouring", shown=shown, origin=Origin(group="man", judge=judge, **origin))


async def project(database: Database, n_tasks: int = 3, *, raters: int = 2, name: str = "p") -> None:
    about = {"suite": "ltf_test"}
    await projects.add(
        database, projects.made_now(name, "favouring", raters, about), [made(number) for number in range(n_tasks)]
    )


async def got(database: Database, rater: str) -> str | None:
    found = await tasks.next_task(database, "p", rater)
    return None if found is None else found.id


async def label_next(database: Database, rater: str, label: dict[str, Any] = FAVOURING) -> str | None:
    found = await tasks.next_task(database, "p", rater)
    if found is not None:
        await labels.save(database, "p", found.id, rater, label, found.revision)
    return None if found is None else found.id


async def test_each_task_gets_as_many_raters_as_it_asks_for(database: Database) -> None:
    """A third rater gets nothing of what two have; an open task comes again, and begun ones come first."""
    await project(database)
    assert [await got(database, "ann"), await got(database, "ann")] == ["t0", "t0"]
    assert await label_next(database, "ann") == "t0"
    assert await label_next(database, "ann") == "t1"
    assert [await label_next(database, "bo") for _ in range(4)] == ["t0", "t1", "t2", None]
    assert await label_next(database, "cy") == "t2"
    assert await label_next(database, "ann") is None
    found = await projects.progress(database, "p")
    assert (found.n_tasks, found.n_labels, found.n_complete) == (3, 6, 3)
    assert found.by_rater == {"ann": 2, "bo": 3, "cy": 1}


@pytest.mark.stores("sqlite", "postgresql")
async def test_many_raters_at_once_fill_no_place_twice(database: Database) -> None:
    """Six ask at the same time, again and again: every task ends with two labels of different raters."""
    await project(database, 20)

    async def work(rater: str) -> None:
        while await label_next(database, rater) is not None:
            pass

    await asyncio.gather(*(work(f"rater {number}") for number in range(6)))
    _, found = await labels.labelled(database, "p")
    assert [len(one.labels) for one in found] == [2] * 20
    assert all(len({label.by for label in one.labels}) == 2 for one in found)


async def test_a_task_that_a_rater_left_is_somebody_elses(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour; the label of the one who comes back after all is kept too."""
    await project(database, 1, raters=1)
    opened = await tasks.next_task(database, "p", "ann")
    assert opened is not None
    assert await got(database, "bo") is None
    monkeypatch.setattr(tasks, "ASSIGNED_SECONDS", -1.0)
    assert await label_next(database, "bo") == "t0"
    await labels.save(database, "p", "t0", "ann", OTHER, opened.revision)
    _, [one] = await labels.labelled(database, "p")
    assert {label.by: label.reading.value for label in one.labels} == {"ann": 2.0, "bo": 1.0}


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_double_click_is_one_label_and_a_stale_form_is_refused(database: Database) -> None:
    """The same label at once, or later, changes nothing; a correction takes the revision on; another label from an old
    form is refused with what to do.
    """
    await project(database, 1)
    saved = await asyncio.gather(*(labels.save(database, "p", "t0", "ann", FAVOURING, 0) for _ in range(2)))
    assert [one.revision for one in saved] == [1, 1]
    assert (await labels.save(database, "p", "t0", "ann", OTHER, 1)).revision == 2
    assert (await labels.save(database, "p", "t0", "ann", OTHER, 0)).revision == 2
    with pytest.raises(ConflictError, match=r"revision 2, the form has 1\): open it again"):
        await labels.save(database, "p", "t0", "ann", FAVOURING, 1)
    _, [one] = await labels.labelled(database, "p")
    assert [(label.by, label.reading.value) for label in one.labels] == [("ann", 2.0)]


async def test_only_what_raters_differ_about_is_decided(database: Database) -> None:
    """A decision is the consensus; it can be changed, by a form that is up to date."""
    await project(database, 2)
    await labels.save(database, "p", "t0", "ann", FAVOURING, 0)
    with pytest.raises(ConflictError, match='task "t0" is open'):
        await labels.adjudicate(database, "p", "t0", "cy", OTHER, 0)
    await labels.save(database, "p", "t0", "bo", OTHER, 0)
    for who in ("ann", "bo"):
        await labels.save(database, "p", "t1", who, FAVOURING, 0)
    with pytest.raises(ConflictError, match='task "t1" is agreed'):
        await labels.adjudicate(database, "p", "t1", "cy", OTHER, 0)

    _, found = await labels.labelled(database, "p")
    assert [one.consensus.state for one in found] == ["disputed", "agreed"]
    assert (await labels.adjudicate(database, "p", "t0", "cy", OTHER, 0)).revision == 1
    assert (await labels.adjudicate(database, "p", "t0", "cy", OTHER, 0)).revision == 1
    with pytest.raises(ConflictError, match="the decision on task"):
        await labels.adjudicate(database, "p", "t0", "cy", FAVOURING, 0)
    _, found = await labels.labelled(database, "p")
    assert found[0].consensus.state == "adjudicated"
    lines = await labels.lines(database, "p")
    of_first = [(one.annotator, one.role, one.value, one.measured_value) for one in lines if one.task == "t0"]
    assert of_first == [("ann", "rater", 1.0, 1.0), ("bo", "rater", 2.0, 1.0), ("cy", "adjudicator", 2.0, 1.0)]


async def test_a_project_keeps_its_form_and_its_labels(database: Database) -> None:
    """Tasks drawn again keep their labels and are not doubled; another form needs another name; deleting takes all."""
    await project(database, 2)
    await label_next(database, "ann")
    assert (
        await projects.add(
            database, projects.made_now("p", "favouring", 2, {}), [made(0, inclusion_probability=0.5), made(7)]
        )
        == 1
    )
    _, found = await labels.labelled(database, "p")
    assert [(one.task.id, one.task.origin.inclusion_probability, len(one.labels)) for one in found] == [
        ("t0", 0.5, 1),
        ("t1", 1.0, 0),
        ("t7", 1.0, 0),
    ]
    with pytest.raises(ConflictError, match="has form favouring and 2 raters a task"):
        await projects.add(database, projects.made_now("p", "essay", 2, {}), [])
    await project(database, 1, name="q")
    await projects.delete(database, "p")
    assert [one.project.name for one in await projects.list_projects(database)] == ["q"]
    with pytest.raises(NotFoundError, match=r'no labelling project is called "pp" \(did you mean "q"\?\)|called "pp"'):
        await projects.progress(database, "pp")
