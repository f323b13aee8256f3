"""A configuration that cannot be taken is refused in one line, whatever its bytes."""

from pathlib import Path

import pytest

from gateway.config_file import load
from gateway.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"a = " + b"[" * 5000, "nested too deeply"), (b"a = \xff", "not valid TOML"), (b"[server]\nprot = 1", "prot")],
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
