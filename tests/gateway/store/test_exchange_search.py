"""Finding stored exchanges: by what names them and by how they were scored, page after page, by an index."""

import time
from typing import Any

import pytest
import sqlalchemy as sa

from auditors.streams.state import stream_key
from auditors.types import AuditFailure, Exchange, Measurement
from gateway.store import exchange_search, exchanges
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria, Found
from tests.support.store.made import exchange, measurement, record

pytestmark = pytest.mark.stores("sqlite")


async def stored(database: Database, number: int, *found: Measurement | AuditFailure, **given: Any) -> Exchange:
    """An exchange received at `number`, with what the judge made of it."""
    one = exchange(**{"id": f"e{number}", "request_id": f"r{number}", "received_at": float(number)} | given)
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    for result in found:
        made = result if isinstance(result, AuditFailure) else [result]
        await record(database, one, made, auditor=result.auditor, probability=0.25)
    return one


async def found(database: Database, **criteria: Any) -> list[tuple[str, float | None]]:
    """Exchange and value of each row."""
    rows = (await exchange_search.search(database, Criteria(**criteria))).rows
    return [(one.exchange.id, one.score.value if one.score else None) for one in rows]


@pytest.mark.stores("sqlite", "postgresql")
async def test_each_criterion_finds_its_own(database: Database) -> None:
    """Request id, tag, key, model, state, auditor, metric, axis, group and bounds each leave out what differs."""
    about = {"group": "men", "axis": "religion", "metric": "refusal_rate"}
    await stored(database, 1, measurement(2.0))
    await stored(database, 2, measurement(-1.0, **about), tag="trial", key_name="app", model="gpt", served_model="qwen")
    await stored(database, 3)

    assert await found(database) == [("e3", None), ("e2", -1.0), ("e1", 2.0)]
    for criteria in (
        {"request_id": "r2"},
        {"exchange_ids": ["e2", "absent"]},
        {"tag": "trial"},
        {"key": "app"},
        {"model": "gpt"},
        {"model": "qwen"},
        {"metric": "refusal_rate"},
        {"axis": "religion"},
        {"group": "men"},
        {"max_score": 0.0},
        {"tag": "trial", "group": "men"},
    ):
        assert await found(database, **criteria) == [("e2", -1.0)], criteria
    assert await found(database, auditor="judge") == [("e2", -1.0), ("e1", 2.0)]
    of_second = {"model": [("gpt", 1)], "tag": [("trial", 1)], "key": [("app", 1)], "group": [("men", 1)]}
    assert await exchange_search.facets(database, ["e2", "absent"]) == of_second
    assert (await exchange_search.facets(database))["tag"] == [(None, 2), ("trial", 1)]
    assert await exchange_search.neighbours(database, 2.0, "e2") == ("e1", "e3")
    assert await exchange_search.neighbours(database, 3.0, "e3") == ("e2", None)
    assert await found(database, since=1.5, until=2.5) == [("e2", -1.0)]
    assert await found(database, min_score=0.0) == [("e1", 2.0)]
    assert await found(database, state="audited") == []
    assert await found(database, tag="trial", group="women") == []


async def test_bounds_and_group_are_of_the_same_score(database: Database) -> None:
    """An exchange with a high score of one group and a low one of another is no high score of the other."""
    await stored(database, 1, measurement(2.0, group="men"))
    one = (await exchange_search.load(database, ["e1"]))["e1"].exchange
    low = measurement(-1.0, group="women", auditor="other")
    await record(database, one, [low], auditor="other", probability=0.25)
    assert await found(database, group="women", min_score=1.0) == []
    assert await found(database, group="men", min_score=1.0) == [("e1", 2.0)]


@pytest.mark.stores("sqlite", "postgresql")
async def test_pages_leave_out_and_repeat_nothing(database: Database) -> None:
    """Also where many exchanges came at the same instant, have several scores, and more arrive in between."""
    for number in range(12):
        scored = measurement(1.0), measurement(0.0, auditor="other")
        await stored(database, number, *(scored if number % 3 else ()), received_at=float(number // 4))
    pages: list[list[Found]] = []
    while not pages or pages[-1]:
        before = pages[-1][-1].place if pages else None
        pages.append(list((await exchange_search.search(database, Criteria(), before=before, limit=5)).rows))
        await stored(database, 100 + len(pages))
    rows = [(one.exchange.id, one.score and one.score.auditor) for page in pages for one in page]
    expected = {
        (f"e{number}", auditor) for number in range(12) for auditor in (("judge", "other") if number % 3 else (None,))
    }
    assert len(rows) == len(expected)
    assert set(rows) == expected
    times = [one.exchange.received_at for page in pages for one in page]
    assert times == sorted(times, reverse=True)


@pytest.mark.stores("sqlite", "postgresql")
async def test_a_page_ends_early_where_little_fits(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how far it has looked, and from there on the rest is found: once, though many came at one instant."""
    monkeypatch.setattr(exchange_search, "FIRST_LOOK", 4)
    monkeypatch.setattr(exchange_search, "LOOK_SECONDS", -1.0)
    for number in range(30):
        await stored(database, number, measurement(float(number % 10 == 0)), received_at=float(number // 3))
    rows: list[Found] = []
    parts, before = 0, None
    while parts == 0 or before is not None:
        part = await exchange_search.search(database, Criteria(min_score=1.0), before=before, limit=50)
        rows += part.rows
        parts, before = parts + 1, part.end
    assert [one.exchange.id for one in rows] == ["e20", "e10", "e0"]
    assert parts > 5


@pytest.mark.stores("sqlite", "postgresql")
async def test_odd_texts_are_compared_as_they_were_stored(database: Database) -> None:
    """What a client chose is no pattern and no SQL; a text that is too long for its column is cut on both sides."""
    await stored(database, 0)
    odd = ["'; DROP TABLE exchanges; --", "x" * 200, "%", "\x00", "'", '"']
    for number, request_id in enumerate(odd, start=1):
        await stored(database, number, request_id=request_id)
        assert await found(database, request_id=request_id) == [(f"e{number}", None)]
        assert await exchange_search.has_request(database, request_id)
    assert not await exchange_search.has_request(database, "y")
    await stored(database, 9, tag="t" * 100)
    assert await found(database, tag="t" * 100) == [("e9", None)]
    assert (await exchanges.delete(database, tag="t" * 100)).exchanges == 1


@pytest.mark.stores("sqlite", "postgresql")
async def test_exchanges_of_a_stream_on_either_side_of_a_moment(database: Database) -> None:
    """Newest first; another stream's, those without a value and deleted ones are not among them."""
    start = time.time() - 60
    for number in range(6):
        at = start + number
        await stored(database, number, measurement(1.0), measurement(1.0, auditor="other"), received_at=at)
    await stored(database, 6, measurement(None), received_at=start + 6)
    await stored(database, 7, measurement(1.0, group="men"), received_at=start + 7)
    await exchanges.delete(database, request_id="r1")
    stream = stream_key(measurement(1.0), "m").id
    assert await exchange_search.of_stream(database, stream, received_from=start + 3, limit=2) == ["e5", "e4"]
    assert await exchange_search.of_stream(database, stream, received_before=start + 3, limit=9) == ["e2", "e0"]
    assert await exchange_search.of_stream(database, "absent", limit=9) == []


@pytest.mark.stores("sqlite", "postgresql")
@pytest.mark.parametrize(
    ("criteria", "index"),
    [
        ({}, "ix_exchanges_received_at"),
        ({"request_id": "r1"}, "ix_exchanges_request_id"),
        ({"state": "queued"}, "ix_exchanges_waiting"),
        ({"auditor": "judge", "min_score": 1.0}, "ix_exchanges_received_at"),
    ],
)
async def test_a_page_is_read_off_an_index(database: Database, criteria: dict[str, Any], index: str) -> None:
    """Exchanges come in order or by what names them, and the scores of each by its id: nothing is read as a whole."""
    query = exchange_search.places(Criteria(**criteria)).limit(50)
    async with database.read() as connection:
        if database.dialect == "postgresql":
            await connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
            await connection.execute(sa.text("SET LOCAL enable_bitmapscan = off"))
        text = str(query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
        explain = "EXPLAIN QUERY PLAN " if database.dialect == "sqlite" else "EXPLAIN "
        plan = [str(row[-1]) for row in await connection.exec_driver_sql(explain + text)]
    assert any(index in line for line in plan), plan
    assert any("measurements" in line and "exchange_id" in line.replace("autoindex", "exchange_id") for line in plan)
    assert not any(line.startswith("SCAN measurements") or "Seq Scan" in line for line in plan), plan
