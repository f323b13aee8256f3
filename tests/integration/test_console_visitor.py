"""A visitor's own polygon in a real Chromium: a walk with the keyboard, how sure it is, and that nothing is kept."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from gateway.errors import RequestError
from gateway.features.labelling import projects
from gateway.features.labelling.visitor import LEAST_CHOICES, N_TASKS, _polygon
from gateway.store.tables import task_labels
from tests.support.browser import browser
from tests.support.gateway.control_plane import control_plane
from tests.support.integration.serving import serving, write_config

NAMES = ["man", "woman", "non_binary"]
HOSTILE = "<img src=x onerror=alert(1)>"
SETTINGS = (
    'visitors_project = "stories"\nadmin_key_env = "VISITOR_ADMIN"\n'
    '[[server.control_keys]]\nname = "looking"\nkey_env = "VISITOR_VIEWER"\nrole = "viewer"\n'
)
ENVIRON = {"VISITOR_ADMIN": "admin", "VISITOR_VIEWER": "viewer"}


def task(number: int, cluster: str | None = None) -> Task:
    """Whose text stands where changes from task to task; the model always takes the woman's."""
    names = NAMES[number % 3 :] + NAMES[: number % 3]
    judge = Reading(status="ok", value="woman")
    origin = Origin(axis="gender", judge=judge, judge_model="the-model", cluster=cluster, key={"names": names})
    shown = {"kind": "story", "texts": [f"{HOSTILE} text of task {number}, {place}" for place in (1, 2, 3)]}
    return Task(id=f"t{number}", form="choice", shown=shown, origin=origin)


def taking(name: str, tasks: list[Task]) -> dict[str, int]:
    return {one.id: one.origin.key["names"].index(name) + 1 for one in tasks}


def test_a_share_is_what_was_chosen() -> None:
    """Whoever takes the man's text twenty times in twenty has a share of 1, and is told so; the model stands beside."""
    tasks = [task(number) for number in range(20)]
    found = _polygon(tasks, taking("man", tasks))

    assert found.said.startswith("After 20 choices, compared with choosing evenly: man more often, ")
    assert "you: man 1.00, 95 % interval 0.84 to 1.00, n = 20" in found.html
    assert "the-model: man 0.00" in found.html


def test_few_or_even_choices_are_not_enough() -> None:
    """Below ten nothing is drawn; ten that hang together as one say nothing, and neither do even ones."""
    few, joined, even = (
        [task(n, c) for n in range(k)] for k, c in ((LEAST_CHOICES - 1, None), (20, "one"), (21, None))
    )
    by_place = _polygon(even, {one.id: 1 for one in even})  # the first text is each identity's in turn

    assert _polygon(few, taking("man", few)).html == ""
    assert _polygon(few, taking("man", few)).said == "Not enough yet: 9 of at least 10 choices."
    assert "do not show a preference" in _polygon(joined, taking("man", joined)).said
    assert "do not show a preference" in by_place.said


def test_a_text_that_was_not_there_is_refused() -> None:
    """With the task, and how many texts it has."""
    tasks = [task(number) for number in range(LEAST_CHOICES)]
    with pytest.raises(RequestError, match=r'task "t0" has 3 texts, not 4'):
        _polygon(tasks, dict.fromkeys((one.id for one in tasks), 4))


async def test_a_visitor_chooses_with_the_keyboard(tmp_path: Path) -> None:
    """A viewer chooses ten times, passes over one, keeps the focus, and sees their polygon; the store has nothing."""
    tasks = [task(number) for number in range(N_TASKS + 5)]
    with browser(tmp_path / "profile") as page:
        async with control_plane(tmp_path) as plane:
            await projects.add(plane.database, projects.made_now("stories", "choice", 2, {}), tasks)
            config = write_config(tmp_path, "http://127.0.0.1:9", SETTINGS)
            async with serving("gateway", "--config", str(config), environ=ENVIRON) as running:
                async with httpx.AsyncClient(base_url=running.root, trust_env=False) as client:
                    viewer = {"authorization": "Bearer viewer"}
                    shown: dict[str, Any] = (
                        await client.get("/console/fingerprints/yours/tasks", headers=viewer)
                    ).json()
                    outside = await client.get("/console/fingerprints/yours/tasks")
                    gone = {"choices": [{"task": "none", "choice": 1}]}
                    unknown = await client.post("/console/fingerprints/yours/polygon", json=gone, headers=viewer)
                page.open(f"{running.root}/console/fingerprints/yours#key=viewer")
                page.eventually("document.querySelectorAll('#visit-texts button').length === 3")
                is_early = page.evaluate("document.querySelector('#visit-show').disabled")
                page.click("#visit-skip")
                focus = set()
                for number in range(LEAST_CHOICES):
                    focus.add(page.evaluate("document.activeElement.id"))
                    page._do(lambda: page._page.keyboard.press("Tab"))
                    page._do(lambda: page._page.keyboard.press("Enter"))
                    page.eventually(f"document.querySelector('#visit-progress').innerText.startsWith('{number + 1} ')")
                page.click("#visit-show")
                page.eventually("document.querySelector('#visit-figure svg')")
                landed = page.evaluate("document.activeElement.id")
                drawn = page.evaluate("document.querySelector('#visit-figure svg.wide').getAttribute('aria-label')")
                complaints = page.complaints()
            async with plane.database.read() as connection:
                kept = (await connection.execute(sa.select(sa.func.count()).select_from(task_labels))).scalar()

    assert len(shown["tasks"]) == N_TASKS
    assert set(shown["tasks"][0]) == {"id", "shown"}
    assert not any(name in str(shown) for name in ("woman", "the-model"))
    assert outside.status_code == 401
    assert (unknown.status_code, unknown.json()["detail"]) == (400, "some of these texts were deleted: start again")
    assert is_early
    assert focus == {"task-title"}
    assert landed == "polygon-title"
    assert "n = 10" in drawn
    assert "the-model: man 0.00" in drawn
    assert kept == 0
    assert complaints == []
    assert page.errors == []
