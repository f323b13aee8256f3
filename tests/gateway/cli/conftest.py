"""An empty home and a folder of its own for each command."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command sees an empty dataset cache and works in its own folder."""
    monkeypatch.setenv("BIASGATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BIASGATE_DATASETS_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"
