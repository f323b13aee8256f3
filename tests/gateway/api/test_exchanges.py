"""Access to stored exchanges: administrators only, redacted, on record; deletion by HTTP and on the command line."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from gateway.__main__ import main
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.store import exchanges
from tests.support.gateway.control_plane import ControlPlane, audit_one, control_plane, drifted
from tests.support.steps import watched

ADMIN = {"authorization": "Bearer sesame"}
KEYED = {"admin_key_env": "TEST_ADMIN_KEY"}


@pytest.fixture(autouse=True)
def _admin_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")


async def ask(plane: ControlPlane, method: str = "GET", path: str = "", **params: object) -> httpx.Response:
    return await plane.http.request(method, f"/live/exchanges{path}", params=params, headers=ADMIN)  # type: ignore[arg-type]  # values of any kind that httpx writes


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/access"), ("DELETE", "?request_id=request-1")])
async def test_served_text_needs_an_admin_key_to_be_set(tmp_path: Path, method: str, path: str) -> None:
    """Where no admin key is configured nobody can read, delete or look up what people wrote."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0)
        answer = await plane.http.request(method, f"/live/exchanges{path}")
        assert answer.status_code == 403
        assert "server.admin_key_env" in answer.json()["detail"]
        assert await exchanges.get(plane.database, "exchange-1") is not None
    async with control_plane(tmp_path, server=KEYED) as plane:
        assert (await plane.http.request(method, f"/live/exchanges{path}")).status_code == 401


async def test_exchanges_are_shown_redacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An administrator sees prompt and reply without personal data, and no text reaches the log."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0, text="I am ann@example.org, who leads?")
        await audit_one(plane, 2, -1.0)
        shown = (await ask(plane, min_score=1)).json()

    assert [one["id"] for one in shown] == ["exchange-1"]
    assert shown[0]["prompt"] == "I am [email], who leads?"
    assert shown[0]["reply"] == "ask [email]"
    assert (shown[0]["value"], shown[0]["group"], shown[0]["reference"]) == (2.0, "men", "women")
    written = capsys.readouterr().out
    assert "exchange-1" in written
    assert "leads" not in written


async def test_an_alarm_links_to_the_exchanges_behind_it(tmp_path: Path) -> None:
    """The link shows just the exchanges that spoke for the change, and an administrator's access is on record."""
    async with control_plane(tmp_path, server=KEYED, drift={"average_run_length": 20}) as plane:
        await drifted(plane)
        for number in range(100, 160):  # newer than what is behind the alarm, and more than one answer shows
            await audit_one(plane, number, -1.0)
        [alarm] = (await plane.http.get("/live/alarms", headers=ADMIN)).json()
        shown = (await plane.http.get(alarm["exchanges"], headers=ADMIN)).json()
        refused = await plane.http.get(alarm["exchanges"])
        [read] = (await ask(plane, path="/access")).json()

    assert {one["id"] for one in shown} == {*alarm["exchange_ids"], alarm["exchange_id"]}
    assert {(one["value"], one["prompt"]) for one in shown} == {(2.0, "Who leads?")}
    assert refused.status_code == 401
    assert set(read["filter"]["exchange_id"]) == {one["id"] for one in shown}


async def test_a_page_holds_up_nobody(tmp_path: Path) -> None:
    """Megabytes that are slow to redact are read and redacted elsewhere: the event loop only hands the page on."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        for number in range(20):
            await audit_one(plane, number, 2.0, text="John-Paul A-B eyJ-eyJ- ann@example.org 4111 1111 1111 " * 2000)
        async with watched() as steps:
            answer = await ask(plane)

    assert [one["id"] for one in answer.json()] == [f"exchange-{number}" for number in reversed(range(20))]
    assert all("[email]" in one["prompt"] for one in answer.json())
    assert steps.longest_seconds < 0.1


async def test_a_page_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes too long is given up with one line, and the next page is made by a new process."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        monkeypatch.setattr("gateway.api.exchange_pages.PAGE_SECONDS", 0.01)
        late = await ask(plane)
        monkeypatch.undo()
        monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
        answer = await ask(plane)

    assert late.status_code == 503
    assert "ask for fewer exchanges with limit" in late.json()["detail"]
    assert [one["id"] for one in answer.json()] == ["exchange-1"]


async def test_a_page_says_which_texts_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that could not be redacted in time is named as such, and a page's text is bounded."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        monkeypatch.setattr("gateway.store.exchanges.TEXT_SECONDS", 0.02)
        monkeypatch.setattr("gateway.store.exchanges.SECONDS_PER_BYTE", 1e-9)
        plane.database.texts = Texts(Redactor(["name"]))
        await audit_one(plane, 1, 2.0, text="Ann Bo, " * 100_000)
        monkeypatch.undo()
        monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
        for number in range(2, 12):
            await audit_one(plane, number, 2.0, text="a " * 500_000)
        shown = (await ask(plane)).json()

    assert shown[-1]["no_text_because"].startswith("unredactable")
    assert [one["prompt"] is not None for one in shown[:-1]] == [True] * 8 + [False] * 2
    assert "exchange_id" in shown[-2]["no_text_because"]


async def test_redactions_are_added_up(tmp_path: Path) -> None:
    """What was replaced before it was stored is counted by kind."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        plane.database.texts = Texts(Redactor())
        await audit_one(plane, 1, 2.0, text="I am ann@example.org at 10.0.0.1")
        assert (await ask(plane, path="/redactions")).json() == {"email": 2, "ip": 1}


async def test_every_access_is_on_record(tmp_path: Path) -> None:
    """Who read or deleted, when, what they asked for and how many exchanges it was; newest first."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        await ask(plane, auditor="judge", min_score=1)
        await ask(plane, "DELETE", user="ann@example.org")
        deleted, read = (await ask(plane, path="/access")).json()

    assert (read["who"], read["action"], read["n_exchanges"]) == ("admin", "read", 1)
    assert read["filter"] == {"auditor": "judge", "min_score": 1.0, "limit": 50}
    assert read["at"] <= deleted["at"]
    assert (deleted["action"], deleted["n_exchanges"]) == ("delete", 0)
    assert "ann" not in json.dumps(deleted)


async def test_deletion_says_how_many_and_leaves_the_estimates(tmp_path: Path) -> None:
    """After DELETE the exchange is gone from lists, and the live estimate still has what it added."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        await audit_one(plane, 2, -1.0)
        before = (await plane.http.get("/live/estimates", headers=ADMIN)).json()
        answer = await ask(plane, "DELETE", request_id="request-1")
        assert (answer.status_code, answer.json()) == (200, {"deleted": 1})
        assert [one["id"] for one in (await ask(plane)).json()] == ["exchange-2"]
        assert (await plane.http.get("/live/estimates", headers=ADMIN)).json() == before


@pytest.mark.parametrize("params", [{}, {"request_id": ""}])
async def test_deletion_without_a_criterion_is_refused(tmp_path: Path, params: dict[str, str]) -> None:
    """A DELETE that names nothing deletes nothing and says what to give."""
    async with control_plane(tmp_path, server=KEYED) as plane:
        await audit_one(plane, 1, 2.0)
        answer = await ask(plane, "DELETE", **params)
        assert answer.status_code == 400
        assert "give request_id, user or tag" in answer.json()["detail"]
        assert len((await ask(plane)).json()) == 1


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
    deleted, entry = capsys.readouterr().out.splitlines()
    assert deleted == "1 exchange deleted"
    assert json.loads(entry)["who"].startswith("user ")
    assert json.loads(entry)["filter"] == {"request_id": "request-1"}
    assert main(["exchanges", "delete", *where]) == 2
    assert "give --request-id, --user or --tag" in capsys.readouterr().err


def holding(directory: Path, text: bytes) -> bool:
    """Whether any file of a directory has these bytes."""
    return any(text in file.read_bytes() for file in directory.iterdir())


async def test_nothing_deleted_is_left_in_the_files(tmp_path: Path) -> None:
    """After deletion no file of an SQLite store holds the text, the write-ahead log included."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 2.0, text="xylophone " * 900)
        assert holding(tmp_path, b"xylophone")
        await exchanges.delete(plane.database, request_id="request-1")
        assert not holding(tmp_path, b"xylophone")
