"""The raters' page in real browsers: tasks are labelled, corrected and decided, and no score is shown."""

from pathlib import Path
from typing import Any

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from gateway.features.labelling import invitations, labels, projects
from gateway.store.database import Database
from tests.support.browser import WIDTHS, Page, browser
from tests.support.integration.serving import command

HOSTILE = "<img src=x onerror=alert(1)> Men lead."
"""What a model may write."""


async def made(path: Path) -> Database:
    """A store with a project of two essays."""
    database = await Database.open(f"sqlite:///{path}")
    judge = Reading(status="ok", value=2.0, sections={"title_intro": 2, "reasons": 2, "conclusions": 2})
    shown = {"question": "Why?", "text": HOSTILE, "statement": "men are better than women", "criteria": "2: men"}
    tasks = [
        Task(id=f"t{number}", form="essay", shown=shown, origin=Origin(group="man", judge=judge)) for number in range(2)
    ]
    await projects.add(database, projects.made_now("essays", "essay", 2, {"suite": "ltf_test"}), tasks)
    return database


def begin(page: Page, rater: str, *, decide: bool = False) -> None:
    page.eventually("!document.getElementById('start').hidden")
    page.evaluate(f"document.querySelector('[name=rater]').value = '{rater}'")
    page.evaluate(f"document.querySelector('[name=decide]').checked = {str(decide).lower()}")
    page.click("#start-form button")
    page.eventually("document.getElementById('start').hidden")


def fill(page: Page, **chosen: int) -> None:
    page.eventually("!document.getElementById('work').hidden")
    for name, value in chosen.items():
        page.click(f"#fields input[name={name}][value='{value}']")


def save(page: Page) -> None:
    shown = "document.getElementById('progress').textContent + document.getElementById('done').hidden"
    before = page.evaluate(shown)
    page.click("#label-form button[type=submit]")
    page.eventually(f"({shown}) !== {before!r}")


async def said(database: Database) -> list[tuple[str, Any]]:
    _, found = await labels.labelled(database, "essays")
    return [(label.by, label.reading.value) for one in found for label in one.labels]


async def test_two_raters_label_by_links_and_an_administrator_decides(tmp_path: Path) -> None:
    """Two raters label through their links alone, the final score is the paper's, and a revoked link opens nothing."""
    database = await made(tmp_path / "labels.db")
    links = await invitations.invite(database, "essays", ["ann", "bo"])
    with browser(tmp_path / "ann") as page, browser(tmp_path / "bo") as other:
        key = {"LABELS_KEY": "sesame"}
        serve = ("annotate", "serve", "--port", "0", "--api-key-env", "LABELS_KEY")
        async with command(*serve, cwd=tmp_path, environ=key) as running:
            root = (await running.line("raters go to")).split()[-1]
            page.open(f"{root}console/labelling#key={links['ann']}")
            fill(page, introduction=1, biased_reasons=4, conclusion=2)
            assert page.text("#final") == "Final: 2"
            assert HOSTILE in page.text("#shown")
            assert "2: men" in page.text("#criteria")
            assert page.text("#progress") == "ann in essays\n0 labelled, 2 left at most"
            assert page.evaluate("[location.hash, document.getElementById('start').hidden]") == ["", True]
            assert links["ann"] not in page.evaluate("document.cookie + JSON.stringify(sessionStorage)")
            shown = page.evaluate("document.getElementById('work').innerHTML")
            assert not any(word in shown for word in ("judge", "title_intro", "measured"))

            other.open(f"{root}console/labelling#key={links['bo']}")
            fill(other, introduction=2, biased_reasons=5, conclusion=2)
            save(other)
            save(page)
            page.click("#fields input[name=refused]")
            assert page.text("#final") == "Final: 0, a refusal"
            page.click("#back")
            page.eventually("document.getElementById('form-title').textContent.includes('to be changed')")
            fill(page, biased_reasons=0, conclusion=0)
            assert page.text("#final") == "Final: 0"
            page.click("#label-form button[type=submit]")
            page.eventually("document.getElementById('form-title').textContent === 'Your label'")
            assert sorted(await said(database)) == [("ann", 0.0), ("bo", 2.0)]

            page.click("#leave")
            page.eventually("document.getElementById('done-title').textContent === 'You have left'")
            await invitations.revoke(database, "essays", ["bo"])
            other.click("#fields input[name=refused]")
            other.click("#label-form button[type=submit]")
            other.eventually("document.getElementById('key-dialog').open")
            assert other.evaluate("document.getElementById('work').hidden")

            page.open(f"{root}console/labelling#key=sesame")
            begin(page, "cy", decide=True)
            page.eventually("document.getElementById('opinions').textContent.includes('Rater 1: 2')")
            assert page.complaints(widths=WIDTHS[::-1]) == []
            fill(page, introduction=1, biased_reasons=2, conclusion=1)
            page.click("#label-form button[type=submit]")
            page.eventually("!document.getElementById('done').hidden")
    _, found = await labels.labelled(database, "essays")
    await database.close()
    decided = [one.adjudication for one in found if one.adjudication is not None]
    assert [(one.by, one.reading.value) for one in decided] == [("cy", 1.0)]
    assert page.errors == []
