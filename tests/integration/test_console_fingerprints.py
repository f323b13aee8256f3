"""The fingerprints of models in a real Chromium: distances from neutral, and whose answers evaluators choose."""

from pathlib import Path
from typing import Any

import httpx

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from auditors.streams.drift import DriftSettings
from gateway.features.labelling import labels, projects
from gateway.store import exchanges
from tests.support.browser import browser
from tests.support.gateway.control_plane import ControlPlane, audit_identities, control_plane
from tests.support.integration.serving import serving, write_config
from tests.support.store.made import exchange, measurement, record

CHOICES = {"even": ("man", "woman", "non_binary"), "lopsided": ("man", "man", "man")}
"""What each evaluator takes in turn."""
N = 90
VIEWER = (
    'admin_key_env = "FINGERPRINT_ADMIN"\n'
    '[[server.control_keys]]\nname = "looking"\nkey_env = "FINGERPRINT_VIEWER"\nrole = "viewer"\n'
)


async def choose(plane: ControlPlane, model: str, number: int) -> None:
    """One choice, as the affinity auditor measures it."""
    asked = exchange(id=f"{model}-{number}", request_id=f"request-{model}-{number}", served_model=model)
    chosen = CHOICES[model][number % 3]
    about: dict[str, Any] = {"auditor": "affinity", "axis": "gender", "judge": None, "detail": {}}
    groups = CHOICES["even"]
    found = [measurement(float(one == chosen), metric="selection_share", group=one, **about) for one in groups]
    await exchanges.insert_batch(plane.database, [asked], {})
    await record(plane.database, asked, found, auditor="affinity", probability=1.0, settings=DriftSettings())


async def test_models_stand_beside_one_another(tmp_path: Path) -> None:
    """Evaluators have a polygon each, with shares and intervals in words; gaps of a group lie beside each other."""
    with browser(tmp_path / "profile") as page:
        async with control_plane(tmp_path) as plane:
            for model in CHOICES:
                for number in range(N):
                    await choose(plane, model, number)
            for number in range(3):
                await audit_identities(plane, number, {"man": 0.2, "woman": 0.3})
        config = write_config(tmp_path, "http://127.0.0.1:9")
        async with serving("gateway", "--config", str(config)) as running:
            page.open(f"{running.root}/console/fingerprints")
            said = page.evaluate("document.querySelector('#live-polygons svg.wide').getAttribute('aria-label')")
            maps = page.evaluate(
                "[...document.querySelectorAll('#live-maps figure')].map((one) => one.querySelector('h3').innerText)"
            )
            cells = page.evaluate("document.querySelector('#live-maps svg.wide').textContent")
            complaints = page.complaints()

    assert "even: man 0.33, 95 % interval 0.13 to 0.55, n = 90" in said
    assert "lopsided: man 1.00, 95 % interval 0.94 to 1.00, n = 90" in said
    assert maps == ["representative distance gap"]
    assert "woman" in cells
    assert "+0.10 from neutral (−2.00 to +2.00, which holds neutral), n = 3" in cells
    assert complaints == []
    assert page.errors == []


async def test_people_stand_beside_the_model(tmp_path: Path) -> None:
    """Raters who chose between texts have a polygon each beside the model's; a refusal is counted and in no share. A
    viewer, who may not know who rates, is not let in.
    """
    names = ["man", "woman", "non_binary"]
    model = Reading(status="ok", value="man")
    tasks = [
        Task(
            id=f"t{number}",
            form="choice",
            shown={"question": "Which?", "texts": ["a", "b", "c"]},
            origin=Origin(axis="gender", judge=model, judge_model="the-model", key={"names": names}),
        )
        for number in range(12)
    ]
    with browser(tmp_path / "profile") as page:
        async with control_plane(tmp_path) as plane:
            made = projects.made_now("stories", "choice", 2, {})
            await projects.add(plane.database, made, tasks)
            for number, task in enumerate(tasks):
                await labels.save(plane.database, "stories", task.id, "Ann", {"choice": number % 3 + 1}, 0)
            await labels.save(plane.database, "stories", "t0", "Bo", {"refused": True}, 0)
            await projects.add(plane.database, projects.made_now("essays", "essay", 2, {}), [])
        config = write_config(tmp_path, "http://127.0.0.1:9", VIEWER)
        environ = {"FINGERPRINT_ADMIN": "admin", "FINGERPRINT_VIEWER": "viewer"}
        async with serving("gateway", "--config", str(config), environ=environ) as running:
            async with httpx.AsyncClient(base_url=running.root, trust_env=False) as client:
                viewer = {"authorization": "Bearer viewer", "accept": "text/html"}
                kept_out = await client.get("/console/fingerprints/raters/stories", headers=viewer)
                admin = {"authorization": "Bearer admin", "accept": "text/html"}
                other = await client.get("/console/fingerprints/raters/essays", headers=admin)
            page.open(f"{running.root}/console/fingerprints/raters#key=admin")
            page.eventually("document.querySelector('body[data-live]')")
            page.click("main a")
            page.eventually("document.querySelector('svg.wide')")
            said = page.evaluate("document.querySelector('svg.wide').getAttribute('aria-label')")
            rows = page.evaluate("[...document.querySelectorAll('tbody tr')].map((one) => one.innerText)")
            faults = page.faults()

    assert kept_out.status_code == 403
    assert other.status_code == 409
    assert "only a choice has shares" in other.text
    assert "the-model: man 1.00" in said
    assert "Ann (rater): man 0.33" in said
    assert rows == ["the-model\t12\t0", "Ann (rater)\t12\t0", "Bo (rater)\t0\t1"]
    assert faults == []
    assert page.errors == []
