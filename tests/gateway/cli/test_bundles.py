"""`biasgate audit bundle`, `verify` and `score` of a bundle, as a user calls them."""

import shlex
import subprocess
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.commands import refused, scored

Say = pytest.CaptureFixture[str]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    """Private and public key, made by openssl."""
    private, public = str(tmp_path / "KEY.pem"), str(tmp_path / "PUBLIC.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def test_bundle_verify_score(tmp_path: Path, keys: tuple[str, str], capsys: Say) -> None:
    """A signed bundle is good, its numbers come out again, and what is not in it is said."""
    run = str(scored(tmp_path / "run"))
    (tmp_path / "labels.jsonl").write_text("{}\n")
    packed = ["audit", "bundle", run, "--out", "b", "--sign-key", keys[0], "--labels", "labels.jsonl"]
    assert main(packed) == 0
    assert main(["audit", "verify", "b", "--key", keys[1]]) == 0
    assert main(["audit", "score", "b"]) == 0

    out = capsys.readouterr().out
    assert "b: 9 files of stereoset, signed" in out
    assert "without ledger.json: a run directory has no ledger" in out
    assert "ok    9 files match the statement: suite stereoset" in out
    assert "75 numbers are as in result.json, 0 differences" in out
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_each_state_has_its_exit_code(tmp_path: Path, keys: tuple[str, str], capsys: Say) -> None:
    """0 as signed, 1 changed, 3 unsigned, 4 by an unknown key, 2 no such file."""
    run = str(scored(tmp_path / "run"))
    assert main(["audit", "bundle", run, "--out", "unsigned"]) == 0
    assert main(["audit", "verify", "unsigned", "--key", keys[1]]) == 3
    assert main(["audit", "bundle", run, "--out", "b", "--sign-key", keys[0]]) == 0
    assert main(["audit", "verify", "b"]) == 4
    assert "name its public key with --key" in capsys.readouterr().out

    content = bytearray((tmp_path / "b").read_bytes())
    content[content.index(b'"item_id":')] ^= 1
    (tmp_path / "b").write_bytes(content)
    assert main(["audit", "verify", "b", "--key", keys[1]]) == 1
    assert "FAIL  items.jsonl: changed: its sha256 is" in capsys.readouterr().out
    assert main(["audit", "verify", "none"]) == 2


MISTAKES = {
    "bundle nothing --out b": "nothing: no result.json: no run is there",
    "bundle runs --out b": "runs: holds 2 runs: bundle each separately, e.g. runs/one",
    "bundle runs/one --out .": ".: cannot be written",
    "bundle runs/one --out no/where": "no/where: cannot be written: No such file or directory",
    "bundle runs/one --out b --sign-key none.pem": "none.pem: no such file of a key",
    "bundle runs/one --out b --labels none": "none: no such file of labels",
    "bundle runs/one --out b --labels 'my labels'": "my labels: rename it: a name has up to 32 letters",
    "verify runs": "runs: no such file",
    "score runs/one/run.json": "run.json: no bundle",
    "score b --suite stereoset": "a bundle says what it is of",
    "score": "audit score needs --suite, or a bundle",
}


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    """Each names the file, and what to do; nothing is left behind."""
    (tmp_path / "runs").mkdir()
    scored(tmp_path / "runs" / "one")
    scored(tmp_path / "runs" / "two")
    (tmp_path / "my labels").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    for arguments, words in MISTAKES.items():
        assert words in refused("audit", *shlex.split(arguments))
        assert sorted(tmp_path.rglob("*")) == before
