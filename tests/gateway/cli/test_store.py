"""`biasgate store migrate`: a store that is there for whatever is started next."""

from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.store.database import Database
from gateway.store.schema import VERSION


def migrate(directory: Path, url: str) -> int:
    path = directory / "biasgate.toml"
    path.write_text(f'[store]\nurl = "{url}"\n')
    return main(["store", "migrate", "--config", str(path)])


def test_it_makes_and_upgrades_a_store(tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Afterwards whoever does not migrate can open it; a second time changes nothing."""
    import asyncio

    async def opens() -> None:
        database = await Database.open(store_url, migrate=False)
        await database.close()

    for _ in range(2):
        assert migrate(tmp_path, store_url) == 0
        assert capsys.readouterr().out.endswith(f" has schema {VERSION}\n")
    asyncio.run(opens())


def test_a_store_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names it, without the password."""
    assert migrate(tmp_path, "postgresql://somebody:sesame@127.0.0.1:9/none") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "127.0.0.1:9" in said
    assert "sesame" not in said
