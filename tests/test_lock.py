"""What production installs is locked: every version, every hash, nothing of where it was resolved."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = {
    "requirements.lock": ["postgres", "otel"],
    "requirements-auditor.lock": ["postgres", "otel", "auditor", "embedder"],
}
"""Lock file to the extras whose requirements it must meet."""
APART = {"torch"}
"""Installed first and alone, from an index with the build that the machine needs: see docs/security.md."""
ENTRY = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)")

TORCH = re.compile(r"torch==([0-9.]+)")


def locked(name: str) -> dict[str, str]:
    """Version by distribution; the whole file must consist of entries with hashes."""
    text = (ROOT / name).read_text()
    entries = list(ENTRY.finditer(text))
    assert "\n".join(entry.group() for entry in entries) + "\n" == text
    return {entry["name"]: entry["version"] for entry in entries}


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_has_its_hashes(name: str) -> None:
    """A lock holds pinned versions, each with at least one sha256, once each, and no option, address or path."""
    versions = locked(name)

    assert len(versions) > 30
    assert not re.search(r"://|--(?!hash=sha256:)|(?<!\\)\n\s*/", (ROOT / name).read_text())
    assert [one for one in versions if one.startswith(("nvidia-", "cuda-", "triton"))] == []


@pytest.mark.parametrize(("name", "extras"), LOCKS.items(), ids=LOCKS)
def test_requirements_are_met(name: str, extras: list[str]) -> None:
    """Each requirement that pyproject.toml declares for the role is locked at a version that meets it."""
    versions = locked(name)
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]
    unmet = [
        str(requirement)
        for requirement in map(Requirement, wanted)
        if requirement.name not in APART
        and not requirement.specifier.contains(Version(versions.get(canonicalize_name(requirement.name), "0")))
    ]

    assert unmet == []
    assert APART.isdisjoint(versions)


def test_roles_agree() -> None:
    """What both roles have, they have in the same version: gateway and auditor share a store."""
    gateway, auditor = (locked(name) for name in LOCKS)

    assert gateway.items() <= auditor.items()


def test_torch_is_the_one_that_make_installs() -> None:
    """The build outside the lock is pinned in the same version wherever it is named, and meets the requirement."""
    pins = {
        match
        for page in ("Makefile", "deploy/Dockerfile", "docs/security.md")
        for match in TORCH.findall((ROOT / page).read_text())
    }
    (requirement,) = (
        Requirement(one) for one in PROJECT["optional-dependencies"]["auditor"] if Requirement(one).name == "torch"
    )

    assert len(pins) == 1
    assert requirement.specifier.contains(pins.pop())


@pytest.mark.skipif(
    importlib.util.find_spec("cyclonedx_py") is None, reason="cyclonedx-bom is not installed: make venv"
)
@pytest.mark.long
def test_bill_of_materials(tmp_path: Path) -> None:
    """`make sbom` writes CycloneDX JSON that names each locked distribution with its version, and torch."""
    subprocess.run(
        ["make", "--old-file=.venv/.dev", "sbom", f"BIN={Path(sys.executable).parent}", f"SBOM={tmp_path}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=50,
    )
    for bill, lock in {"gateway.json": "requirements.lock", "auditor.json": "requirements-auditor.lock"}.items():
        made = json.loads((tmp_path / bill).read_text())
        components = {canonicalize_name(one["name"]): one["version"] for one in made["components"]}
        torch = {"torch": TORCH.findall((ROOT / "Makefile").read_text())[0]} if "auditor" in lock else {}

        assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", "biasgate")
        assert components == locked(lock) | torch
        assert {one["purl"].split("?")[0] for one in made["components"]} == {
            f"pkg:pypi/{name}@{version}" for name, version in components.items()
        }
