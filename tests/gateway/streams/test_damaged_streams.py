"""A stored state that cannot be used stops nothing: its stream is put aside and named, and can be started again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.streams.soundness import read_state
from auditors.streams.state import StreamState, update
from auditors.types import Exchange
from gateway.auditor.live_series import LiveSeries
from gateway.auditor.metrics_snapshot import SnapshotReader
from gateway.store import damaged_streams, exchanges, tables
from gateway.store.database import Database
from gateway.store.streams import Stream
from tests.support.gateway.control_plane import control_plane
from tests.support.store.made import SETTINGS, exchange, list_streams, measurement, record

pytestmark = pytest.mark.stores("sqlite")

WHO = {"by": "Ann", "reason": "a forged rate"}


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    def edit(text: str) -> str:
        state = msgspec.json.decode(text)
        change(state)
        return msgspec.json.encode(state).decode()

    return edit


DAMAGES: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "null": lambda _: "null",
    "a list": lambda _: "[]",
    "cut off": lambda text: text[: len(text) // 2],
    "deep": lambda _: "[" * 100_000,
    "null for an infinity": edited(lambda state: state["sums"].update(ww=None)),
    "a text for a number": edited(lambda state: state["sums"].update(w="1")),
    "1e999": lambda text: text.replace('"ww":', '"ww":1e999,"_":', 1),
    "Infinity": lambda text: text.replace('"ww":', '"ww":Infinity,"_":', 1),
    "a square too large": edited(lambda state: state["sums"].update(w=1e200)),
    "no weight": edited(lambda state: state["sums"].update(w=0.0)),
    "weight below 0": edited(lambda state: state["sums"].update(w=-5.0)),
    "squares of 0": edited(lambda state: state["sums"].update(ww=0.0)),
    "fewer than none": edited(lambda state: state["sums"].update(n=-3)),
    "a mean of 7": edited(lambda state: state["sums"].update(wy=7.0 * state["sums"]["w"])),
    "a bet of 1": edited(lambda state: state["low"].__setitem__(11, 1.0)),
    "bounds of another kind": edited(lambda state: state.update(low="x")),
    "no detector's bets": edited(lambda state: state["detector"].update(rising=[])),
    "evidence below 0": edited(lambda state: state["detector"]["falling"].__setitem__(0, -1.0)),
    "a limit of 0": edited(lambda state: state["detector"].update(upper_limit=0.0)),
    "a probability of 0": edited(lambda state: state.update(least_own=0.0)),
    "a weight of 0": edited(lambda state: state.update(largest_weight=0.0)),
}


def moved() -> StreamState:
    """A state with all that a state may have of a single stream."""
    state = StreamState()
    for number in range(30):
        state = update(state, number % 3 / 2.0, 0.5, SETTINGS, exchange_id=f"e{number}", at=1000.0 * number)
    assert state.detector is not None
    return state


@pytest.mark.parametrize("name", DAMAGES)
def test_damages_are_told(name: str) -> None:
    """Whatever is wrong is found while the state is read, and said in a line."""
    read = read_state(DAMAGES[name](msgspec.json.encode(moved()).decode()))
    assert read == StreamState(damaged=read.damaged)
    assert read.damaged
    assert "\n" not in read.damaged


def test_sound_states_are_read_as_they_were() -> None:
    """Of every length, so with every part that comes in time."""
    state = StreamState()
    for number in range(60):
        assert read_state(msgspec.json.encode(state)) == state
        state = update(state, number % 3 / 2.0, 0.5, SETTINGS, exchange_id=f"e{number}", at=1000.0 * number)


async def stored_exchange(database: Database, **given: Any) -> Exchange:
    one = exchange(**given)
    await exchanges.insert_batch(database, [one], {})
    return one


async def record_scores(database: Database, value: float = 1.0, **given: Any) -> Exchange:
    """An exchange with scores of men and of women."""
    one = await stored_exchange(database, **given)
    found = [measurement(value, group="women"), measurement(0.0, group="men")]
    await record(database, one, found, probability=one.inclusion_probability)
    return one


async def women(database: Database) -> Stream:
    """The stream of women's scores."""
    listed = await list_streams(database)
    [one] = [one for one in listed if (one.key.group, one.key.metric) == ("women", "favoritism")]
    return one


async def damage(database: Database, text: str = '{"sums": {"n": 3, "w": 1e160, "ww": null}}') -> str:
    """Id of the stream of women's scores, whose state is this from now on."""
    one = await women(database)
    async with database.begin() as connection:
        change = sa.update(tables.streams).where(tables.streams.c.key == one.id).values(state=text)
        await connection.execute(change)
    return one.id


async def count(database: Database, table: sa.Table) -> int:
    return await database.count(table)


async def values_of(database: Database) -> dict[tuple[str, str], int]:
    """Values in each sound stream, by metric and group."""
    return {(one.key.metric, one.key.group): one.state.sums.n for one in await list_streams(database)}


async def test_the_others_move_on(database: Database) -> None:
    """Measurements of a damaged stream are recorded, its state stays as it is, and its gaps and men's scores move."""
    for _ in range(3):
        await record_scores(database)
    broken = await damage(database)
    before = await values_of(database)
    for _ in range(2):
        await record_scores(database)

    after = await values_of(database)
    assert before["favoritism", "men"] == 3
    assert {name: n - before[name] for name, n in after.items() if "women" not in name[1]} == {
        ("favoritism", "men"): 2,
        ("favoritism_gap", "men"): 2,
    }
    assert await count(database, tables.measurements) == 10
    [named] = await damaged_streams.list_damaged(database)
    assert (named.stream, named.key.group) == (broken, "women")
    assert "ww" in named.reason
    query = sa.select(tables.streams.c.state).where(tables.streams.c.key == broken)
    assert "1e160" in str(await database.fetch_value(query))


async def test_a_probability_that_no_draw_has(database: Database) -> None:
    """It would make weights of which the squares are no numbers: the audit is refused, and no stream is damaged."""
    await record_scores(database)
    with pytest.raises(ValueError, match="too small"):
        await record_scores(database, inclusion_probability=1e-100)
    assert await damaged_streams.list_damaged(database) == []
    assert (await women(database)).state.sums.n == 1


async def test_metrics_of_a_damaged_stream(database: Database) -> None:
    """It has no numbers and says so; it was noticed by reading alone, before any audit touched it."""
    await record_scores(database)
    broken = await damage(database, "{")
    snapshot = await SnapshotReader(database, settings=SETTINGS).read()
    text = LiveSeries(SETTINGS).text(snapshot.streams, is_openmetrics=False).decode()

    damaged = [line for line in text.splitlines() if line.startswith("biasgate_stream_damaged{")]
    assert f'biasgate_stream_damaged{{stream="{broken}"}} 1.0' in damaged
    assert len(damaged) == len(snapshot.streams)
    assert sum(line.endswith(" 1.0") for line in damaged) == 1
    assert 'biasgate_live_estimate{auditor="judge",metric="favoritism",axis="gender",group="women"' not in text
    assert [one.stream for one in await damaged_streams.list_damaged(database)] == [broken]


async def test_pages_and_restart(tmp_path: Path) -> None:
    """The API and the console show the others, /readyz stays ready and names it, and a restart begins again."""
    async with control_plane(tmp_path, upstreams=[]) as plane:
        for _ in range(3):
            await record_scores(plane.database)
        broken = await damage(plane.database)
        await record_scores(plane.database)
        listed = {one["stream"]: one for one in (await plane.http.get("/live/estimates")).json()}
        detectors = {one["stream"]: one for one in (await plane.http.get("/live/detectors")).json()}
        checks = (await plane.http.get("/readyz")).json()["checks"]
        pages = [
            await plane.http.get(path)
            for path in (
                *("/console", "/console/alarms", f"/console/alarms/{broken}", "/live/alarms"),
                *(f"/live/streams/{broken}/history", f"/live/streams/{broken}/replicas", "/live/estimates?window=5"),
            )
        ]
        refused = await plane.http.post(f"/live/alarms/{broken}/acknowledge", json=WHO)
        restarted = await plane.http.post(f"/live/streams/{broken}/restart", json=WHO)
        unknown = await plane.http.post("/live/streams/none/restart", json=WHO)
        silent = await plane.http.post(f"/live/streams/{broken}/restart")
        await record_scores(plane.database)
        again = {one["stream"]: one for one in (await plane.http.get("/live/estimates")).json()}[broken]
        entries = (await plane.http.get(f"/live/alarms/acknowledgements?stream={broken}")).json()
        healthy = (await plane.http.get("/readyz")).json()["checks"]

    assert (listed[broken]["damaged"], listed[broken]["value"], listed[broken]["n"]) == (True, None, 0)
    assert listed[broken]["reason"].startswith("damaged: its stored state cannot be used")
    assert sum(one["damaged"] for one in listed.values()) == 1
    assert detectors[broken]["state"] == "damaged"
    assert checks["streams"].startswith(f"ok, but 1 damaged and put aside: {broken} (judge favoritism gender women")
    assert [page.status_code for page in pages] == [200] * len(pages)
    assert broken in pages[0].text
    assert (refused.status_code, "restart" in refused.json()["detail"]) == (409, True)
    assert (restarted.status_code, unknown.status_code, silent.status_code) == (200, 404, 400)
    assert (again["damaged"], again["n"], again["value"]) == (False, 1, 1.0)
    assert (entries[0]["by"], entries[0]["reason"]) == ("Ann", "started again: a forged rate")
    assert "streams" not in healthy
