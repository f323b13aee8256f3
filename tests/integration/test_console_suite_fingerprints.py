"""Fingerprints in the console, from runs and streams of a store: distances, ranks, evaluators, published numbers."""

import html
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from auditors.streams.drift import DriftSettings
from benchmarks.run.result import Result, encode
from gateway.features.labelling import labels, projects
from gateway.store import exchanges, runs
from gateway.store.database import Database
from tests.benchmarks.test_recorded_results import scored
from tests.support.gateway.control_plane import ControlPlane, audit_identities, audit_one, control_plane
from tests.support.integration.auditing import until
from tests.support.store.made import create_run, exchange, measurement, record

HOSTILE = "<img src=x onerror=alert(1)>"
IDENTITIES = ("man", "woman", "non_binary")
CHOICES = {"even": IDENTITIES, "lopsided": ("man", "man", "man")}
"""The identity that each evaluator takes in turn."""
N_CHOICES = 30
SUITES = ("crows_pairs.corrected", "implicit_association.paper", "ltf_test.paper", "stereoset.corrected")


def recorded_results() -> dict[str, Result]:
    """Return results of recorded replies, which must be scored outside of an event loop."""
    return {name: scored(f"{name}.sample")[0] for name in SUITES}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Result]:
    return recorded_results()


async def choose(database: Database, model: str, number: int) -> None:
    """Store a choice, as the affinity auditor measures it."""
    exchange_id = f"{model}-{number}"
    sampled = exchange(id=exchange_id, request_id=f"request-{exchange_id}", served_model=model)
    chosen = CHOICES[model][number % 3]
    about: dict[str, Any] = {"auditor": "affinity", "axis": "gender", "judge": None, "detail": {}}
    shares = [measurement(float(name == chosen), metric="selection_share", group=name, **about) for name in IDENTITIES]
    await exchanges.insert_batch(database, [sampled], {})
    await record(database, sampled, shares, auditor="affinity", probability=1.0, settings=DriftSettings())


async def plant_evaluators(database: Database) -> None:
    """Store choices of two models, and a project in which two people chose between texts."""
    for model in CHOICES:
        for number in range(N_CHOICES):
            await choose(database, model, number)
    key = {"names": list(IDENTITIES)}
    origin = Origin(axis="gender", judge=Reading(status="ok", value="man"), judge_model="the-model", key=key)
    texts = {"question": "Which?", "texts": ["a", "b", "c"]}
    tasks = [Task(id=f"t{number}", form="choice", shown=texts, origin=origin) for number in range(12)]
    await projects.add(database, projects.made_now("stories", "choice", 2, {}), tasks)
    for number, task in enumerate(tasks):
        await labels.save(database, "stories", task.id, "Ann", {"choice": number % 3 + 1}, 0)
    await labels.save(database, "stories", "t0", "Bo", {"refused": True}, 0)
    await projects.add(database, projects.made_now("essays", "essay", 2, {}), [])


async def finish(database: Database, run_id: str, result: Result) -> None:
    """End a run as an auditor does."""
    names = ("suite", "model", "mode", "protocol", "mitigation")
    options = {name: getattr(result, name) for name in names} | {"data": result.dataset.kind, "seed": len(run_id)}
    await create_run(database, run_id, options)
    assert await runs.claim(database, run_id)
    assert await runs.finish(database, run_id, result=encode(result).decode(), report="")


def of(result: Result, model: str, **changes: float) -> Result:
    """Return a result under a model's name with the headline numbers of some axes moved exactly to these values."""
    estimates = [
        msgspec.structs.replace(
            row, value=changes[row.axis], lower=changes[row.axis] - 1, upper=changes[row.axis] + 1, n=100, extra={}
        )
        if row.metric == "ss" and row.axis in changes and row.subset is None
        else row
        for row in result.estimates
    ]
    return msgspec.structs.replace(result, model=model, estimates=estimates, axes_not_assessable={})


async def plant_runs(database: Database, recorded: dict[str, Result]) -> None:
    """Store two models' runs of four suites, an older run too, and a run whose result cannot be read."""
    crows = recorded[SUITES[0]]
    await finish(database, "old", of(crows, "one", gender=99.0))
    await finish(database, "crows-one", of(crows, "one", gender=62.0, race=50.5))
    await finish(database, "crows-two", of(crows, HOSTILE, gender=40.0))
    for model in ("one", HOSTILE):
        for name in SUITES[1:]:
            await finish(database, f"{name[:8]}-{len(model)}", of(recorded[name], model))
    await create_run(database, "unreadable", {"suite": "bbq", "model": "one", "mode": "sample", "protocol": "paper"})
    assert await runs.claim(database, "unreadable")
    assert await runs.finish(database, "unreadable", result='{"schema": 0}', report="")


async def page(plane: ControlPlane, path: str, within: str = "") -> str:
    """Return a page's markup, once it holds these words."""
    texts: list[str] = []

    async def is_complete() -> bool:
        texts.append((await plane.http.get(f"/console/fingerprints{path}")).text)
        return within in texts[-1]

    await until(is_complete)
    return texts[-1]


def words(markup: str) -> str:
    """Return the text of a page or of a part of it, its labels and titles too, with single spaces."""
    labels = re.sub(r'<[^>]*aria-label="([^"]*)"[^>]*>', r" \1 ", markup)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", labels)).split())


def cell(markup: str, row: str, column: str) -> str:
    """Return the markup of the first such cell of a map."""
    begin = f'data-row="{html.escape(row)}" data-column="{column}"'
    return markup.split(begin)[1].split("data-row=")[0]


async def test_live_models_and_people_stand_next_to_each_other(tmp_path: Path) -> None:
    """Evaluators have neighbouring polygons with intervals in words; a person's refusal is counted in no share."""
    async with control_plane(tmp_path) as plane:
        await plant_evaluators(plane.database)
        for number in range(3):
            await audit_identities(plane, number, {"man": 0.2, "woman": 0.3})
        live, stories = await page(plane, ""), words(await page(plane, "/raters/stories"))
        essays = await plane.http.get("/console/fingerprints/raters/essays")

    assert re.findall(r"<h3[^>]*>([^<]+)</h3>", live.split("Who is chosen")[0]) == ["representative distance gap"]
    text = words(live)
    assert "even: man 0.33, 95 % interval 0.00 to 0.71, n = 30" in text
    assert "lopsided: man 1.00, 95 % interval 0.82 to 1.00, n = 30" in text
    assert "+0.10 from neutral (−2.00 to +2.00, which holds neutral), n = 3" in text
    assert "the-model: man 1.00" in stories
    assert "Ann (rater): man 0.33" in stories
    assert "the-model 12 0 Ann (rater) 12 0 Bo (rater) 0 1" in stories
    assert essays.status_code == 409
    assert "only a choice has shares" in essays.text


async def test_a_mean_that_left_its_bounds_has_no_interval(tmp_path: Path) -> None:
    """The bounds of its past end at the present mean: Overview and fingerprints say that it moved, and show no end."""
    async with control_plane(tmp_path) as plane:
        for number in range(150):
            await audit_one(plane, number, -1.0 if number < 60 else 2.0)
        [moved] = (await plane.http.get("/live/estimates")).json()
        overview, live = (await plane.http.get("/console")).text, await page(plane, "")
    row = overview.split(f"/console/alarms/{moved['stream']}")[1].split("</tr>")[0]

    assert (moved["value"], moved["is_widened"]) == (moved["upper"], True)
    assert "n 150" in words(row)
    assert "mean moved" in words(row)
    assert ("data-upper" in row, 'class="interval"' in row) == (False, False)
    assert "+0.80 from neutral, no interval, n = 150" in words(live)


async def test_runs_stand_next_to_each_other(tmp_path: Path, recorded: dict[str, Result]) -> None:
    """Each model's newest run has a linked row with its distance, hatched near neutral, above the printed numbers."""
    async with control_plane(tmp_path) as plane:
        await plant_runs(plane.database, recorded)
        assert "appear here in a few seconds" in await page(plane, "/suites/crows_pairs")
        markup = await page(plane, "/suites/crows_pairs", 'id="suite-crows_pairs"')
        ranks = await page(plane, "/suites", 'id="published-ranks"')

    gender, race = (cell(markup, "one", axis) for axis in ("gender", "race"))
    assert "+12.0 from neutral (+11.0 to +13.0), n = " in words(gender)
    assert "+0.5 from neutral (−0.5 to +1.5, which holds neutral)" in words(race)
    assert ('class="hatch"' in gender, 'class="hatch"' in race) == (False, True)
    assert f"{HOSTILE}, gender: −10.0 from neutral" in words(cell(markup, HOSTILE, "gender"))
    assert HOSTILE not in markup + ranks
    links = set(re.findall(r'href="(/console/audits/[^"]+)"', markup))
    assert links == {"/console/audits/crows-one", "/console/audits/crows-two"}
    assert "Published: SS, Kumar et al., No LLM is Free From Bias, Table 11" in words(markup)
    assert "the paper prints no interval and no number of replies" in words(markup)
    own, published = ranks.split('id="published-ranks"')
    assert set(re.findall(r'class="rank[^"]*"[^>]*>([^<]+)<', own)) == {"1="}, "both models have the same replies"
    assert "religion: 1.00 (no interval), rank sum 2" in words(own)
    assert re.findall(r"(\S+) published", words(published))[:4] == ["TL-1.1B", "PHI-3.5B", "MST-7B", "LL-8B"]
