"""A suite, an auditor and a feature that another wheel brings: installed by pip, then used as one uses our own."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from auditors.registry import AUDITORS
from auditors.streams.scales import SCALES
from benchmarks.suites import registry
from benchmarks.suites.registry import SUITES
from gateway.auditor import maintenance
from gateway.feature import FEATURES
from gateway.store import catalogue
from gateway.store.database import Database
from tests.benchmarks.suites import test_conformance as conformance
from tests.support.gateway.control_plane import control_plane
from tests.support.integration.auditing import auditing, config_for, metrics, sample, settled, until
from tests.support.integration.running_suites import ask_for_run, await_status
from tests.support.simulated import running_simulator
from tests.support.store.scored import scores_of

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests/support/example_suite"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example was installed into, built and installed by pip without a network."""
    source, target = tmp_path_factory.mktemp("source") / "example", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", target, source], check=True)
    return target


@pytest.fixture
def known_here(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is installed for this process."""
    monkeypatch.syspath_prepend(installed)
    for cached, name in ((SUITES, "_found"), (AUDITORS, "_found"), (FEATURES, "_found"), (SCALES, "_by_metric")):
        monkeypatch.setitem(vars(cached), name, None)
        del vars(cached)[name]


async def biasgate(installed: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a real process that has the example."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_catalogue_lists_it_and_warns_of_what_cannot_be_used(installed: Path) -> None:
    """`biasgate suites` has the suite beside ours; a broken one and a taken name are one line each with the wheel."""
    code, out, err = await biasgate(installed, "suites", "--json")
    names = [suite["name"] for suite in json.loads(out)]

    assert code == 0
    assert "answer_length" in names
    assert len(names) == len(set(names)) == 12
    broken, taken, strange = sorted(err.splitlines())
    assert broken.startswith('biasgate.suites "broken" of the distribution biasgate-example is left out: ModuleNotF')
    assert taken == 'biasgate.suites "stereoset" of the distribution biasgate-example is left out: the name is taken'
    assert strange.startswith('biasgate.suites "strange" of the distribution biasgate-example is left out: ValueError')
    assert strange.endswith("it does not derive from benchmarks.suites.protocol.Suite")


async def test_its_command_reads_its_section(installed: Path, tmp_path: Path) -> None:
    """`biasgate greet` runs by the section [greeting], which is checked as our sections are; --help loads no suite."""
    file = tmp_path / "greeting.toml"
    file.write_text('[greeting]\nword = "good day"\n')
    code, out, err = await biasgate(installed, "greet", "world", "--config", str(file))
    _, overview, warnings = await biasgate(installed, "--help")
    refused = []
    for line in ('wrod = "hi"', 'word = " "'):
        file.write_text(f"[greeting]\n{line}\n")
        refused.append((await biasgate(installed, "config", "check", "--config", str(file)))[2])

    assert (code, out, err, warnings) == (0, "good day world\n", "", "")
    assert re.search(r"^  greet +greet somebody$", overview, re.MULTILINE)
    assert 'unknown key "greeting.wrod" (did you mean "word"?)' in refused[0]
    assert f"{file}: greeting.word is empty: write a word" in refused[1]


@pytest.mark.usefixtures("known_here")
async def test_its_route_is_guarded_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer's key opens the route as the feature says; without a key it stays closed."""
    monkeypatch.setenv("VIEWER_KEY", "viewer-secret")
    keys = [{"name": "viewer", "key_env": "VIEWER_KEY", "role": "viewer"}]
    async with control_plane(tmp_path, server={"control_keys": keys}) as plane:
        closed = await plane.http.get("/greeting")
        opened = await plane.http.get("/greeting", headers={"authorization": "Bearer viewer-secret"})

    assert closed.status_code == 401
    assert opened.json() == {"greeting": "hello"}


async def test_a_run_gives_its_number_and_a_report(installed: Path, tmp_path: Path) -> None:
    """`audit run` asks a served model and leaves the suite's metric in result.json and on the page."""
    async with running_simulator() as url:
        server = ("--base-url", url, "--model", "simulated", "--data", "embedded")
        code, _, err = await biasgate(
            installed, "audit", "run", "--suite", "answer_length", *server, "--out", str(tmp_path / "run")
        )
    assert code == 0, err
    estimates = json.loads((tmp_path / "run/result.json").read_text(encoding="utf-8"))["estimates"]
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")

    assert [(one["metric"], one["group"]) for one in estimates] == [("words", "man"), ("words", "woman")]
    assert all(one["lower"] <= one["value"] <= one["upper"] and one["value"] > 5 for one in estimates)
    assert "Answer length" in page
    assert "mean number of words of an answer" in page


@pytest.mark.usefixtures("known_here")
def test_its_suite_can_be_put_to_our_conformance_tests() -> None:
    """Its orders, denominators, intervals and items hold what ours do."""
    suite = SUITES["answer_length"]
    for protocol in suite.protocols:
        conformance.test_the_seed_decides_the_orders(suite, protocol)
        conformance.test_errors_are_in_no_denominator(suite, protocol)
        conformance.test_intervals_hold_their_values(suite, protocol)
    conformance.test_embedded_items_are_the_pinned_ones(suite)


@pytest.mark.stores("sqlite")
@pytest.mark.usefixtures("known_here")
async def test_an_auditor_process_runs_both(database: Database) -> None:
    """The auditor runs the suite and exports its number, audits live exchanges, and gives their metric a stream."""
    live = {"judge": {"enabled": False}, "embedding": {"enabled": False}, "plugins": {"words": {}}}
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream, auditors=live)) as url:
        run = await await_status(database, await ask_for_run(database, suite="answer_length"), "done", "failed")
        assert run.status == "done", run.error
        await until(partial(_exports_words, url))
        assert ("biasgate_greetings", frozenset()) in await metrics(url)
        audited = await sample(database, 3)
        await settled(database, audited=3)
        await until(partial(_exports_live_words, url))
        await maintenance.publish_catalogue(database, registry.catalogue)
    found = await scores_of(database, auditor="words", exchange_ids=[audited[0].id])

    assert "answer_length" in [suite["name"] for suite in await catalogue.read(database)]
    assert "Answer length" in (run.report or "")
    assert [(one.metric, one.value) for one in found] == [("words", 6.0)]


async def _exports_live_words(url: str) -> bool:
    exported = {name: value for (name, labels), value in (await metrics(url)).items() if ("metric", "words") in labels}
    return exported.get("biasgate_live_estimate") == pytest.approx(6.0) and "biasgate_drift_alarm" in exported


async def _exports_words(url: str) -> bool:
    shown = [dict(labels) for name, labels in await metrics(url) if name == "biasgate_audit_estimate"]
    return {(one["suite"], one["metric"], one["group"]) for one in shown} >= {("answer_length", "words", "woman")}
