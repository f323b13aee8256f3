"""`biasgate export`: what it writes and says, and its complaints."""

import asyncio
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.store.database import Database
from tests.support.store.exported import add, read


def configured(directory: Path, url: str, export: str = "") -> str:
    path = directory / "biasgate.toml"
    path.write_text(f'[store]\nurl = "{url}"\n{export}')
    return str(path)


def fill(url: str, n: int) -> None:
    async def filling() -> None:
        database = await Database.open(url)
        await add(database, n)
        await database.close()

    asyncio.run(filling())


def test_it_writes_what_is_new(tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """To --to, or to export.url; a second time nothing."""
    fill(store_url, 1200)
    path = configured(tmp_path, store_url, '[export]\nurl = "there"\n')
    assert main(["export", "--config", path]) == 0
    assert capsys.readouterr().out == "1,200 measurements in 2 files at there\n"
    assert main(["export", "--config", path]) == 0
    assert capsys.readouterr().out == "nothing new in 0 files at there\n"
    assert main(["export", "--config", path, "--to", f"file://{tmp_path}/elsewhere"]) == 0
    assert len(read("there", "measurements")) == len(read(f"{tmp_path}/elsewhere", "measurements")) == 1200
