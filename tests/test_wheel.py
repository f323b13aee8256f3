"""What an index would get: a wheel that has all it needs, runs beside anybody's files, and reads well on its page."""

import re
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from readme_renderer import markdown

from benchmarks.suites.registry import SUITES
from gateway.features.deploy.files import DATA, deployment_files
from tests.integration.test_demo import DEMO_SECONDS, assert_as_planted
from tests.support import wheel as wheels
from tests.support.wheel import run

HIDING = ("gateway", "torch", "biasgate", "json")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def script(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's directory, with modules of the same names as ours and those that we use."""
    for name in HIDING:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')\n")
    return tmp_path


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_it_holds_packages_types_and_deployment_files(wheel: Path) -> None:
    """All four packages with py.typed, templates and cards, each deployment file byte for byte, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        data = f"gateway/features/deploy/{DATA}/"
        carried = {name.removeprefix(data): archive.read(name) for name in names if name.startswith(data)}
    packages = {"auditors", "benchmarks", "biasgate", "gateway"}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == packages
    assert {f"{package}/py.typed" for package in packages} <= names
    assert {f"benchmarks/suites/{suite}/card.md" for suite in SUITES} <= names
    assert carried == {name: path.read_bytes() for name, path in deployment_files().items()}


def test_its_page_renders_and_links_leave_the_index(wheel: Path) -> None:
    """The description is Markdown that an index renders, and no link or picture in it is relative to the repository."""
    said = metadata(wheel)
    page = markdown.render(str(said.get_payload()), variant="GFM")
    assert said["Description-Content-Type"] == "text/markdown"
    assert page is not None
    targets = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert len(targets) > 50
    assert [target for target in targets if not target.startswith(("https://", "http://127.0.0.1", "#"))] == []
    assert "<table" in page
    urls = dict(url.split(", ") for url in said.get_all("Project-URL", []))
    assert set(urls) == {"Documentation", "Source", "Changelog", "Issues"}
    assert all(target.startswith(urls["Source"]) for target in targets if "/docs/" in target)


def test_it_runs_beside_files_of_the_same_names(script: Path, project: Path) -> None:
    """The command imports nothing of the working directory: version, items of a suite, deployment files."""
    version = run(script, "--version", cwd=project)
    written = run(script, "deploy", "write", "here", cwd=project)
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("biasgate ")
    assert (written.returncode, written.stderr) == (0, "")
    there = {name: (project / "here" / name).read_bytes() for name in deployment_files()}
    assert there == {name: path.read_bytes() for name, path in deployment_files().items()}
    assert (project / "here/deploy/.env").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("names", [("torch",), ("gateway", "json", "torch")])
def test_files_that_would_be_imported_are_named(script: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    """With the working directory on PYTHONPATH, one line says which files hide which modules, and what to do."""
    for name in names:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')\n")
    refused = run(script, "--version", cwd=tmp_path, pythonpath=":/nowhere")
    ours = [name for name in names if name != "torch"] or list(names)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert all(f"{tmp_path / name}.py (for {name})" in refused.stderr for name in ours)
    assert "rename them, or take their directory off PYTHONPATH" in refused.stderr


def test_as_a_module_it_says_which_command_to_use(script: Path, tmp_path: Path) -> None:
    """`python -m` puts the working directory first, so the same check names the file and the command that does not."""
    package = tmp_path / "sqlalchemy"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported from the working directory')\n")
    refused = run(script.with_name("python"), "-m", "biasgate", "--version", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"{package}/__init__.py (for sqlalchemy)" in refused.stderr
    assert "start the command `biasgate`" in refused.stderr


def test_other_files_do_not_keep_it_from_starting(script: Path, tmp_path: Path) -> None:
    """Other names, a folder that is not a package, and an installed distribution hide nothing that biasgate uses."""
    for name in ("notes.py", "test.py", "setup.py", "json/data.bin", "torch.py", "torch-9.0.dist-info/METADATA"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    started = run(script, "--version", cwd=tmp_path, pythonpath=str(tmp_path))
    assert (started.returncode, started.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.timeout(DEMO_SECONDS + 20)
def test_the_demo_runs_from_the_wheel(script: Path, project: Path) -> None:
    """Beside files of the same names, every process it starts is the wheel's, and all comes out as planted."""
    shown = run(script, "demo", cwd=project, timeout=DEMO_SECONDS)
    assert_as_planted(shown)
    assert "As planted: at least 80%" in shown.stdout
    assert "imported from the working directory" not in shown.stdout + shown.stderr
