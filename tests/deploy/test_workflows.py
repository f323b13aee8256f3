"""The workflows of a release: valid, off until switched on, pinned, with no more rights than each job needs."""

import hashlib
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from tests.support import wheel

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
SCHEMAS = {FOLDER / "dependabot.yml": "dependabot"} | dict.fromkeys(WORKFLOWS, "github-workflows")
RIGHTS = {
    "release": {
        "build": {"contents": "read"},
        "attest": {"contents": "read", "id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    },
    "checks": {
        "ci": {"contents": "read"},
        "simulations": {"contents": "read"},
        "scorecard": {"contents": "read", "id-token": "write"},
    },
}


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_files_are_valid(path: Path) -> None:
    """Each holds to the published schema of its kind."""
    import jsonschema

    vendor = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{SCHEMAS[path]}.json"
    schema = json.loads(vendor.read_text(encoding="utf-8"))
    whole = json.loads(
        json.dumps({str(key).replace("True", "on"): one for key, one in yaml.safe_load(path.read_text()).items()})
    )
    errors = list(jsonschema.validators.validator_for(schema)(schema).iter_errors(whole))
    assert [error.message for error in errors] == []


def test_an_auditor_of_workflows_finds_nothing() -> None:
    """zizmor, at its strictest: no injection, no kept credentials, no unpinned action, no right too many."""
    program = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [program, "--offline", "--no-progress", "--persona", "pedantic", str(ROOT / ".github")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_runs_until_it_is_switched_on(workflow: Path) -> None:
    """Each job, or one that it waits for, asks for a variable that a maintainer sets; each ends by itself."""
    its = jobs(workflow)
    for job in its.values():
        first = job
        while "needs" in first:
            first = its[first["needs"]]
        assert re.match(r"vars\.BIASGATE_(RELEASES|CHECKS) == 'on'", first["if"])
        assert job["timeout-minutes"] <= 120


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_rights_are_those_that_are_needed(workflow: Path) -> None:
    """None by default; each job has its own few, and no secret is named."""
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs(workflow).items()} == RIGHTS[workflow.stem]
    assert "secrets." not in workflow.read_text()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned(workflow: Path) -> None:
    """To a commit, with the release that it is, and one commit for each action."""
    used = re.findall(r"uses: ([\w/-]+)@(\S+)(.*)", workflow.read_text())
    assert used
    assert [one for one in used if not (re.fullmatch(r"[0-9a-f]{40}", one[1]) and re.match(r" # v\d+", one[2]))] == []
    every = re.findall(r"uses: ([\w/-]+)@(\S+)", "".join(path.read_text() for path in WORKFLOWS))
    assert len(set(every)) == len({name for name, _ in every})


def test_tools_are_locked() -> None:
    """Each tool that release.in names, and what it needs, is there at one version with its hashes."""
    wanted = {line for line in (FOLDER / "release.in").read_text().splitlines() if line and not line.startswith("#")}
    text = (FOLDER / "release.lock").read_text()
    entries = re.findall(r"^([a-z0-9-]+)==\S+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert wanted <= set(entries)
    assert text.count("==") == len(entries)
    assert "://" not in text


@pytest.mark.long
def test_the_same_source_makes_the_same_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time of the commit, as the workflow builds it, byte for byte."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    digests = {hashlib.sha256(wheel.built(tmp_path / name).read_bytes()).hexdigest() for name in ("one", "two")}
    assert len(digests) == 1
