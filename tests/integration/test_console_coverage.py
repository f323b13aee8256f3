"""What no suite covers, computed from stored exchanges and a finished run, over HTTP and in the console."""

import asyncio
import json
from pathlib import Path

import pytest

from auditors.types import Embedder
from gateway.__main__ import main
from gateway.auditor.metrics import AuditorMetrics, Snapshot
from gateway.features.coverage.auditing import read_families
from gateway.features.coverage.passes import CoveragePasses
from gateway.store import exchanges
from gateway.telemetry.exposition import Exposition
from tests.gateway.features.coverage.test_auditing import OUTSIDE, asking, inside, odd
from tests.integration.test_console_suite_fingerprints import words
from tests.support.auditors.word_embedder import WordEmbedder
from tests.support.benchmarks.scripted import pick, plan
from tests.support.gateway.control_plane import ControlPlane, config_in, control_plane
from tests.support.gateway.finished_runs import finished
from tests.support.store.made import SETTINGS

KEYS = {
    "admin_key_env": "COVERAGE_ADMIN",
    "control_keys": [{"name": "looking", "key_env": "COVERAGE_VIEWER", "role": "viewer"}],
}


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
    found += [asking(f"{OUTSIDE.format(odd(n))}", key_name="app") for n in range(n_outside)]
    await exchanges.insert_batch(plane.database, found, {})
    run = await finished(plane, mixed(tmp_path / "run"))

    async def loaded() -> Embedder:
        return WordEmbedder()

    config = config_in(tmp_path, audits={"data_dir": str(tmp_path / "data")})
    await CoveragePasses(config, plane.database, asyncio.Event(), embedder=loaded)()
    return run


async def test_it_is_told_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API, metrics and page agree, a run's headline is weighted as traffic, and only administrators see prompts."""
    monkeypatch.setenv("COVERAGE_ADMIN", "admin")
    monkeypatch.setenv("COVERAGE_VIEWER", "viewer")
    async with control_plane(tmp_path, server=KEYS) as plane:
        plane.http.headers["authorization"] = "Bearer admin"
        before = await plane.http.get("/live/coverage")
        run = await compute(plane, tmp_path, n_inside=40, n_outside=20)
        coverage = (await plane.http.get("/live/coverage")).json()
        metrics = AuditorMetrics(SETTINGS)
        await metrics.renew(Snapshot(families=await read_families(plane.database)))
        text = (await Exposition(metrics).render("text/plain"))[0].decode()
        page = await plane.http.get("/console/coverage")
        viewed = await plane.http.get("/console/coverage", headers={"authorization": "Bearer viewer"})
        refused = await plane.http.post("/live/coverage", headers={"authorization": "Bearer viewer"})
        requested = await plane.http.post("/live/coverage")
        due = (await plane.http.get("/live/coverage")).json()
        due_page = await plane.http.get("/console/coverage")
    [weighted] = coverage["reweighted"]

    assert before.status_code == 404
    assert "audits.coverage_every_hours" in before.json()["detail"]
    assert coverage["unmatched"]["value"] == pytest.approx(1 / 3)
    assert "biasgate_coverage_unmatched_ratio 0.333" in text
    assert "biasgate_coverage_exchanges 60.0" in text
    assert 'biasgate_coverage_suite_ratio{suite="stereoset"}' in text
    assert (weighted["run"], weighted["suite"], weighted["metric"]) == (run, "stereoset", "ss")
    assert weighted["value"] is not None, weighted["reason"]
    assert weighted["lower"] <= weighted["value"] <= weighted["upper"]
    assert 0.3 < weighted["represents"] <= 2 / 3
    assert f'biasgate_coverage_reweighted{{metric="ss",model="{weighted["model"]}",suite="stereoset"}}' in text
    assert (page.status_code, viewed.status_code) == (200, 200)
    assert "33.3 % of it resembles no question of any suite" in words(page.text)
    assert "33.3 %" in words(viewed.text)
    assert coverage["next_at"] == coverage["at"] + 24 * 3600
    assert (refused.status_code, requested.status_code) == (403, 202)
    assert due == coverage | requested.json()
    assert coverage["at"] < due["next_at"] < coverage["next_at"]
    assert "due: an auditor begins it within a minute" in words(due_page.text)
    assert "due:" not in words(page.text)
    assert ("POST /live/coverage" in page.text, "POST /live/coverage" in viewed.text) == (True, False)
    link = "/console/exchanges?exchange_id"
    assert (link in page.text, link in viewed.text) == (True, False)
