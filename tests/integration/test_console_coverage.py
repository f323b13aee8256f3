"""What no suite covers, computed from stored exchanges and a finished run, over HTTP and in a real Chromium."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from auditors.types import Embedder
from gateway.__main__ import main
from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.features.coverage.auditing import read_families
from gateway.features.coverage.passes import CoveragePasses
from gateway.store import exchanges
from gateway.telemetry.exposition import Exposition
from tests.gateway.features.coverage.test_auditing import OUTSIDE, asking, inside, odd
from tests.support.auditors.word_embedder import WordEmbedder
from tests.support.benchmarks.scripted import pick, plan
from tests.support.browser import browser
from tests.support.gateway.control_plane import ControlPlane, config_in, control_plane
from tests.support.gateway.finished_runs import finished
from tests.support.integration.serving import serving, write_config
from tests.support.store.made import SETTINGS

VIEWER = (
    'admin_key_env = "COVERAGE_ADMIN"\n'
    '[[server.control_keys]]\nname = "looking"\nkey_env = "COVERAGE_VIEWER"\nrole = "viewer"\n'
)


def mixed(path: Path) -> Path:
    """A run of a model that takes the stereotype two times in three."""
    replies = path.with_suffix(".jsonl")
    items = enumerate(plan().items)
    lines = [
        {"item_id": item.item_id, "text": pick("anti-stereotype" if number % 3 == 2 else "stereotype")(item)}
        for number, item in items
    ]
    replies.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    arguments = ["audit", "score", "--suite", "stereoset", "--data", "embedded"]
    assert main([*arguments, "--responses", str(replies), "--out", str(path)]) == 0
    return path


async def compute(plane: ControlPlane, tmp_path: Path, *, n_inside: int, n_outside: int) -> str:
    """Stores exchanges and a finished run, and computes; the run's id."""
    found = [asking(one, key_name="app") for one in inside(n_inside)]
    found += [asking(f"{OUTSIDE.format(odd(n))} <b>&", key_name="app") for n in range(n_outside)]
    await exchanges.insert_batch(plane.database, found, {})
    run = await finished(plane, mixed(tmp_path / "run"))

    async def loaded() -> Embedder:
        return WordEmbedder()

    config = config_in(tmp_path, audits={"data_dir": str(tmp_path / "data")})
    await CoveragePasses(config, plane.database, asyncio.Event(), embedder=loaded)()
    return run


async def test_it_is_told_everywhere(tmp_path: Path) -> None:
    """API and metrics have the same numbers; a run's headline number is weighted as the traffic that resembles it."""
    async with control_plane(tmp_path) as plane:
        before = await plane.http.get("/live/coverage")
        run = await compute(plane, tmp_path, n_inside=40, n_outside=20)
        said = (await plane.http.get("/live/coverage")).json()
        metrics = AuditorMetrics(SETTINGS)
        await metrics.renew(Snapshot(families=await read_families(plane.database)))
        text = (await Exposition(metrics).render("text/plain"))[0].decode()
    [weighted] = said["reweighted"]

    assert before.status_code == 404
    assert "audits.coverage_every_hours" in before.json()["detail"]
    assert said["unmatched"]["value"] == pytest.approx(1 / 3)
    assert "biasgate_coverage_unmatched_ratio 0.333" in text
    assert "biasgate_coverage_exchanges 60.0" in text
    assert 'biasgate_coverage_suite_ratio{suite="stereoset"}' in text
    assert (weighted["run"], weighted["suite"], weighted["metric"]) == (run, "stereoset", "ss")
    assert weighted["value"] is not None, weighted["reason"]
    assert weighted["lower"] <= weighted["value"] <= weighted["upper"]
    assert 0.3 < weighted["represents"] <= 2 / 3
    assert f'biasgate_coverage_reweighted{{metric="ss",model="{weighted["model"]}",suite="stereoset"}}' in text


async def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readable at every width, by everybody; a viewer sees numbers and no way to the prompts, which an admin has."""
    monkeypatch.setenv("COVERAGE_ADMIN", "a" * 20)
    monkeypatch.setenv("COVERAGE_VIEWER", "v" * 20)
    with browser(tmp_path / "profile") as page:
        async with control_plane(tmp_path) as plane:
            await compute(plane, tmp_path, n_inside=40, n_outside=60)
        config = write_config(tmp_path, "http://127.0.0.1:9", VIEWER)
        async with serving("gateway", "--config", str(config)) as running:
            async with httpx.AsyncClient(base_url=running.root) as http:
                viewed = await http.get("/console/coverage", headers={"authorization": f"Bearer {'v' * 20}"})
            page.open(f"{running.root}/console/coverage")
            page.eventually("document.querySelector('#login')")
            page.click("#key")
            page.press("a" * 20)
            page.click("#login button")
            page.eventually("document.querySelector('#unmatched-title')")
            complaints = page.complaints(f"{running.root}/console/coverage")
            said = page.text("#live-coverage")
            page.click("#live-coverage a[href^='/console/exchanges']")
            page.eventually("document.querySelector('.exchanges')")
            prompts = page.text(".exchanges")

    assert viewed.status_code == 200
    assert "60.0 %" in viewed.text
    assert "/console/exchanges?exchange_id" not in viewed.text
    assert "60.0 % of it resembles no question of any suite" in said
    assert "<b>&" in prompts
    assert complaints == []
    assert page.errors == []
