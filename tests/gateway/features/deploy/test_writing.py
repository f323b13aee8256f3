"""`biasgate deploy write`: what it writes, what it leaves alone, and what it says."""

import os
import stat
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.features.deploy import writing
from gateway.features.deploy.files import PRIVATE, deployment_files

ROOT = Path(__file__).parents[4]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def variables(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def write(directory: Path, *more: str) -> int:
    return main(["deploy", "write", str(directory), *more])


def test_everything_is_written_for_containers_and_keys_for_the_owner(tmp_path: Path) -> None:
    """Whatever the umask, services of other users can read the repository's files, and the owner alone the keys."""
    before = os.umask(0o077)
    try:
        assert write(tmp_path / "new") == 0
    finally:
        os.umask(before)
    paths = list((tmp_path / "new").rglob("*"))
    files = {path.relative_to(tmp_path / "new").as_posix() for path in paths if path.is_file()}
    assert files == {*deployment_files(), "deploy/.env"}
    assert {mode(path) for path in paths if path.is_dir()} | {mode(tmp_path / "new")} == {0o755}
    assert {mode(path) for path in paths if path.is_file() and path.name != ".env"} == {0o644}
    assert mode(tmp_path / "new/deploy/.env") == 0o600
    for name in deployment_files():
        assert (tmp_path / "new" / name).read_bytes() == (ROOT / name).read_bytes()


def test_keys_of_a_checkout_go_nowhere() -> None:
    """Neither into git, nor into an image, a source distribution or a wheel."""
    for name in (".gitignore", ".dockerignore", "MANIFEST.in"):
        lines = (ROOT / name).read_text().split()
        assert {word.removeprefix("/") for word in lines} >= PRIVATE, name
    assert not PRIVATE & deployment_files().keys()


def test_every_deployment_has_keys_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No two secrets are alike, each has 256 bits in letters that a URL takes, and none is printed."""
    for name in ("one", "two"):
        write(tmp_path / name)
    both = [variables(tmp_path / name / "deploy/.env") for name in ("one", "two")]
    drawn = [one[name] for one in both for name in writing.SECRETS]
    assert len(set(drawn)) == 2 * len(writing.SECRETS)
    output = capsys.readouterr().out
    assert [secret for secret in drawn if secret in output] == []
    assert all(len(secret) == 43 and secret.replace("-", "").replace("_", "").isalnum() for secret in drawn)


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file that is there is enough: it is named, and nothing at all is written."""
    mine = tmp_path / "deploy/docker-compose.yml"
    mine.parent.mkdir()
    mine.write_text("mine")
    code = write(tmp_path)
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert str(mine) in said.err
    assert "--force" in said.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_force_renews_files_and_keeps_the_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys in use stay; what a newer version wants besides is named, and links lead nowhere."""
    write(tmp_path)
    env, compose, elsewhere = tmp_path / "deploy/.env", tmp_path / "deploy/docker-compose.yml", tmp_path / "elsewhere"
    kept = "".join(line for line in env.read_text().splitlines(keepends=True) if "GRAFANA" not in line)
    env.write_text(kept)
    elsewhere.write_text("not ours")
    compose.unlink()
    compose.symlink_to(elsewhere)
    capsys.readouterr()
    assert write(tmp_path, "--force") == 0
    said = capsys.readouterr().out
    assert env.read_text() == kept
    assert "It lacks GRAFANA_PASSWORD" in said
    assert elsewhere.read_text() == "not ours"
    assert compose.read_bytes() == (ROOT / "deploy/docker-compose.yml").read_bytes()
    assert not compose.is_symlink()
