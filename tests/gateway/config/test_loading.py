"""A configuration that cannot be taken is refused in one line, whatever its bytes."""

import json
from pathlib import Path

import pytest

from gateway.config.loading import load
from gateway.errors import ConfigError

IMPOSSIBLE = Path(__file__).with_name("impossible_values.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"a = " + b"[" * 5000, "nested too deeply"), (b"a = \xff", "line 1: not UTF-8"), (b"[server]\nprot = 1", "prot")],
)
def test_files(text: bytes, message: str, tmp_path: Path) -> None:
    """The line names what is wrong with the file."""
    (tmp_path / "biasgate.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path / "biasgate.toml", environ={})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "message"), [("[" * 5000, "server.port"), ("\udcff", "not UTF-8")])
def test_overrides(text: str, message: str, tmp_path: Path) -> None:
    """The line names the override."""
    (tmp_path / "biasgate.toml").write_bytes(b"")
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / "biasgate.toml", environ={"BIASGATE_SERVER__PORT": text})


@pytest.mark.parametrize(("text", "message"), json.loads(IMPOSSIBLE.read_text()))
def test_values(text: str, message: str, tmp_path: Path) -> None:
    """The line names the key, a number that cannot be, and the words there are; no word that may be a secret."""
    (tmp_path / "biasgate.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "biasgate.toml", environ={})
    assert message in str(raised.value)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "path", ["", "/", "health", "/a/", "//a", "/a/../b", "/.", "/a b", "/%61", "/a?b", "/a\\n", "/é"]
)
def test_paths_that_are_none(path: str, tmp_path: Path) -> None:
    """What is no exact path cannot be relayed, and the line shows one that can."""
    (tmp_path / "biasgate.toml").write_text(f'[server]\nrelayed_paths = ["{path}"]', encoding="utf-8")
    with pytest.raises(ConfigError, match='such as "/tokenize"'):
        load(tmp_path / "biasgate.toml", environ={})


@pytest.mark.parametrize(
    "text", ['"*"', '["*"]', "[]", '["https://A.example:8443", "http://[::1]:3000", "chrome-extension://abc"]']
)
def test_origins(text: str, tmp_path: Path) -> None:
    """What browsers send as Origin is taken, and so is "*" in either form."""
    (tmp_path / "biasgate.toml").write_text(f"[server]\ncors_origins = {text}", encoding="utf-8")
    load(tmp_path / "biasgate.toml", environ={})
