"""The fingerprints of models in a real Chromium: distances from neutral, and whose answers evaluators choose."""

from pathlib import Path
from typing import Any

from auditors.streams.drift import DriftSettings
from gateway.store import exchanges, measurements
from tests.support.browser import browser
from tests.support.gateway.control_plane import ControlPlane, audit_identities, control_plane
from tests.support.integration.serving import serving, write_config
from tests.support.store.made import exchange, measurement

CHOICES = {"even": ("man", "woman", "non_binary"), "lopsided": ("man", "man", "man")}
"""What each evaluator takes in turn."""
N = 300


async def choose(plane: ControlPlane, model: str, number: int) -> None:
    """One choice, as the affinity auditor measures it."""
    one = exchange(id=f"{model}-{number}", request_id=f"request-{model}-{number}", served_model=model)
    chosen = CHOICES[model][number % 3]
    about: dict[str, Any] = {"auditor": "affinity", "axis": "gender", "judge": None, "metric": "selection_share", "detail": {}}
    found = [measurement(float(group == chosen), group=group, **about) for group in CHOICES["even"]]
    await exchanges.insert_batch(plane.database, [one], {})
    await measurements.record(plane.database, one, "affinity", found, 0.1, probability=1.0, settings=DriftSettings())


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
            faults = {}
            for scheme in ("light", "dark"):
                for width in (1440, 768, 400, 320):
                    page.theme(scheme)
                    page.size(width, 900)
                    page.open(f"{running.root}/console/fingerprints")
                    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    faults[scheme, width] = (wide, page.faults())
                    page.screenshot(tmp_path / f"{scheme}-{width}.png")

    assert "even: man 0.33, 95 % interval 0.2" in said
    assert "lopsided: man 1.00, 95 % interval 0.98 to 1.00, n = 300" in said
    assert maps == ["representative distance gap"]
    assert "woman" in cells
    assert "+0.10 from neutral (−2.00 to +2.00, which holds neutral), n = 3" in cells
    assert faults == dict.fromkeys(faults, (0, []))
    assert page.errors == []
