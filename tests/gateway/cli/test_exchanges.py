"""`biasgate exchanges` works on the store itself."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.gateway.control_plane import audit_one, control_plane


def test_the_command_deletes_and_shows_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`biasgate exchanges` works on the store without a gateway, names the machine's user, and refuses to guess."""

    async def prepare() -> None:
        async with control_plane(tmp_path) as plane:
            await audit_one(plane, 1, 2.0)

    asyncio.run(prepare())
    config = tmp_path / "biasgate.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/biasgate.db"\n')
    where = ["--config", str(config)]
    assert main(["exchanges", "delete", "--request-id", "request-1", *where]) == 0
    assert main(["exchanges", "access", *where]) == 0
    deleted, kept, entry = capsys.readouterr().out.splitlines()
    assert deleted == "1 exchange deleted"
    assert kept == "1 measurement kept without link: estimates keep these numbers"
    assert json.loads(entry)["who"].startswith("user ")
    assert json.loads(entry)["filter"] == {"request_id": "request-1"}
    assert main(["exchanges", "delete", *where]) == 2
    assert "give --request-id, --user or --tag" in capsys.readouterr().err
