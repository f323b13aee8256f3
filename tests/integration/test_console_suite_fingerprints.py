"""Fingerprints of suite runs in a real Chromium: distances, ranks and what papers print, from the runs of a store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from benchmarks.run.result import Result, encode
from gateway.store import runs
from gateway.store.database import Database
from tests.benchmarks.test_recorded_results import scored
from tests.support.browser import Page, browser
from tests.support.gateway.control_plane import control_plane
from tests.support.integration.serving import serving, write_config

HOSTILE = "<img src=x onerror=alert(1)>"


async def finish(database: Database, run_id: str, result: Result) -> None:
    """As an auditor ends a run."""
    asked: dict[str, Any] = {
        "suite": result.suite,
        "model": result.model,
        "mode": result.mode,
        "protocol": result.protocol,
        "data": result.dataset.kind,
        "mitigation": result.mitigation,
        "seed": len(run_id),
    }
    await runs.create(database, run_id, asked)
    assert await runs.claim(database, run_id)
    assert await runs.finish(database, run_id, result=encode(result).decode(), report="")


@pytest.fixture(scope="module")
def recorded() -> dict[str, Result]:
    """Results of recorded replies, scored before there is an event loop."""
    names = ("crows_pairs.corrected", "implicit_association.paper", "ltf_test.paper", "stereoset.corrected")
    return {name: scored(f"{name}.sample")[0] for name in names}


def of(result: Result, model: str, **changes: float) -> Result:
    """A result under a model's name, the headline numbers of some axes moved to these values, exactly."""
    estimates = [
        msgspec.structs.replace(one, value=changes[one.axis], lower=changes[one.axis] - 1, upper=changes[one.axis] + 1)
        if one.metric == "ss" and one.axis in changes and one.subset is None
        else one
        for one in result.estimates
    ]
    return msgspec.structs.replace(result, model=model, estimates=estimates)


class Planted(NamedTuple):
    page: Page
    root: str


@asynccontextmanager
async def planted(directory: Path, recorded: dict[str, Result]) -> AsyncIterator[Planted]:
    """Two models with runs of three suites, one of them with an older run too."""
    with browser(directory / "profile") as page:
        async with control_plane(directory) as plane:
            crows = recorded["crows_pairs.corrected"]
            await finish(plane.database, "old", of(crows, "one", gender=99.0))
            await finish(plane.database, "crows-one", of(crows, "one", gender=62.0, race=50.5))
            await finish(plane.database, "crows-two", of(crows, HOSTILE, gender=40.0))
            for model in ("one", HOSTILE):
                for name in ("implicit_association.paper", "ltf_test.paper", "stereoset.corrected"):
                    await finish(plane.database, f"{name[:8]}-{len(model)}", of(recorded[name], model))
            asked = {"suite": "bbq", "model": "one", "mode": "sample", "protocol": "paper"}
            await runs.create(plane.database, "unreadable", asked)
            assert await runs.claim(plane.database, "unreadable")
            assert await runs.finish(plane.database, "unreadable", result='{"schema": 0}', report="")
        config = write_config(directory, "http://127.0.0.1:9")
        async with serving("gateway", "--config", str(config)) as running:
            yield Planted(page, running.root)


async def test_models_stand_beside_one_another(tmp_path: Path, recorded: dict[str, Result]) -> None:
    """The newest run of each model has a row with its distance, hatched where the interval holds neutral, and a link to
    it; printed numbers stand below under the paper's name; nothing waits for it to be drawn; it fits every window.
    """
    async with planted(tmp_path, recorded) as shown:
        page = shown.page
        async with httpx.AsyncClient(trust_env=False) as client:
            first = await client.get(f"{shown.root}/console/fingerprints/suites/crows_pairs")
        page.open(f"{shown.root}/console/fingerprints/suites/crows_pairs")
        page.eventually("document.querySelector('#suite-crows_pairs svg.wide')")
        cells = page.evaluate(
            "Object.fromEntries("
            "[...document.querySelector('#suite-crows_pairs svg.wide').querySelectorAll('.cell')].map((one) =>"
            " [`${one.dataset.row}/${one.dataset.column}`,"
            " [one.querySelector('title').textContent, !!one.querySelector('.hatch')]]))"
        )
        links = page.evaluate("[...document.querySelectorAll('.runs a')].map((one) => one.getAttribute('href'))")
        titles = page.evaluate("[...document.querySelectorAll('#suite-crows_pairs h3')].map((one) => one.innerText)")
        text = page.text("#suite-crows_pairs")
        complaints = []
        for path in ("", "/crows_pairs", "/implicit_association"):
            page.open(f"{shown.root}/console/fingerprints/suites{path}")
            page.eventually("document.querySelector('.suites')")
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            complaints += page.complaints()

    assert complaints == []
    assert first.status_code == 200
    assert "appear here in a few seconds" in first.text
    assert cells["one/gender"] == [cells["one/gender"][0], False]
    assert "+12.0 from neutral (+11.0 to +13.0), n = " in cells["one/gender"][0]
    assert cells["one/race"][1]
    assert "+0.5 from neutral (−0.5 to +1.5, which holds neutral)" in cells["one/race"][0]
    assert cells[f"{HOSTILE}/gender"][0].startswith(f"{HOSTILE}, gender: −10.0 from neutral")
    assert sorted(links) == ["/console/audits/crows-one", "/console/audits/crows-two"]
    assert titles == ["SS", "Published: SS, Kumar et al., No LLM is Free From Bias, Table 11"]
    assert "the paper prints no interval and no number of replies" in text
    assert page.errors == []


async def test_ranks_are_tied_where_chance_could_swap(tmp_path: Path, recorded: dict[str, Result]) -> None:
    """Two models with the same replies share every rank, which the positioning plot says; printed ranks stand apart."""
    async with planted(tmp_path, recorded) as shown:
        page = shown.page
        page.open(f"{shown.root}/console/fingerprints/suites")
        page.eventually("document.querySelector('#published-ranks')")
        ranks = page.evaluate(
            "[...document.querySelectorAll('.board:not(#published-ranks) .rank')].map((one) => one.innerText)"
        )
        own = page.evaluate("document.querySelector('.of-runs figure svg.wide').getAttribute('aria-label')")
        models = page.evaluate("[...document.querySelectorAll('#published-ranks th')].map((one) => one.textContent)")
        suites = page.evaluate("[...document.querySelectorAll('.suites a')].map((one) => one.innerText)")

    assert set(ranks) == {"1="}
    first, second = (part.split(": ", 1)[1] for part in own.split(". ")[1:])
    assert first == second
    assert "religion 1.00 (1.00 to 1.00), rank sum 2" in first
    assert models[2:6] == [f"{name} published" for name in ("TL-1.1B", "PHI-3.5B", "MST-7B", "LL-8B")]
    assert suites == ["Ranks", "crows pairs", "implicit association", "ltf test", "stereoset"]
