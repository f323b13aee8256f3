"""Halves of exchanges in any number: bounded in a body, for a key and in memory; no step of the event loop is long."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import BusyError
from gateway.features.ingest import intake, pairs
from gateway.features.ingest.intake import MOST_BYTES_OF_A_KEY
from gateway.features.ingest.reading import MOST_ENTRIES
from gateway.features.ingest.waiting_parts import TooManyWaitingError
from gateway.proxy.admission import Client
from gateway.store import ingested
from gateway.store.ingested import StoredPart
from gateway.store.tables import ingested_parts
from tests.gateway.features.ingest.conftest import OPEN
from tests.support.gateway.control_plane import ControlPlane, control_plane
from tests.support.gateway.ingested import counted
from tests.support.steps import watched

LINES = {"content-type": "application/x-ndjson"}
STEP_SECONDS = 0.05


def client(name: str) -> Client:
    return Client(name=name, may_opt=False, may_set_priority=False)


def half(number: int, side: str = "request") -> dict[str, Any]:
    return {"id": f"h{number}", side: {"messages": [], "n": number}}


def lines(halves: Sequence[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in halves)


@pytest.mark.parametrize("form", ["lines", "list"])
async def test_a_body_of_too_many_halves(plane: ControlPlane, form: str) -> None:
    """It is refused before any of it is taken, and counted once."""
    halves = [half(number) for number in range(MOST_ENTRIES + 1)]
    body = lines(halves) if form == "lines" else json.dumps(halves).encode()
    answer = await plane.http.post("/ingest/http", content=body, headers=LINES)

    assert answer.status_code == 413
    assert f"more than {MOST_ENTRIES} exchanges or parts of them: send smaller batches" in answer.json()["detail"]
    assert counted(plane) == {("http", "refused"): 1}
    assert await plane.database.count(ingested_parts) == 0


async def test_lines_that_are_nothing(plane: ControlPlane) -> None:
    """Megabytes of line ends are not split into as many lines."""
    started = time.process_time()
    answer = await plane.http.post("/ingest/http", content=b"x\n" * 2_000_000, headers=LINES)

    assert answer.status_code == 413
    assert time.process_time() - started < 1.0


async def test_halves_leave_the_loop_its_turns(plane: ControlPlane) -> None:
    """First halves, second halves and a sweep of thousands: each step of the event loop is short."""
    n = 1500
    async with watched() as steps:
        first = await plane.http.post("/ingest/http", content=lines([*map(half, range(n))]), headers=LINES)
        answers = [half(number, "response") for number in range(n // 2)]
        second = await plane.http.post("/ingest/http", content=lines(answers), headers=LINES)
        n_swept = await plane.intake.sweep(now=time.time() + 86_400)

    assert (first.json()["waiting"], second.json()["taken"], n_swept) == (n, n // 2, n - n // 2)
    halves = {("http", "waiting"): n, ("http", "taken"): n // 2, ("http", "half"): n - n // 2}
    assert counted(plane) == halves
    assert await plane.database.count(ingested_parts) == 0
    assert steps.longest_seconds < STEP_SECONDS


async def test_halves_of_one_exchange_are_one(plane: ControlPlane) -> None:
    """A thousand in one body wait as one, and an answer ends them all."""
    body = lines([{"id": "one", "request": {"messages": [], "n": number}} for number in range(1000)])
    first = await plane.http.post("/ingest/http", content=body, headers=LINES)
    second = await plane.http.post("/ingest/http", json=half(0, "response") | {"id": "one"})
    third = await plane.http.post("/ingest/http", content=body, headers=LINES)

    assert (first.json()["waiting"], second.json()["taken"], third.json()["duplicate"]) == (1, 1, 1)
    assert await plane.database.count(ingested_parts) == 0


class TestWaitingOfAKey:
    async def test_more_are_refused_until_others_have_come(self, tmp_path: Path) -> None:
        """Another key's find room, second halves are always taken, and they make room for new ones."""
        config = OPEN | {"ingest": {"enabled": True, "max_waiting": 10}}
        async with control_plane(tmp_path, **config) as plane:
            full = await plane.http.post("/ingest/http", content=lines([*map(half, range(12))]), headers=LINES)
            again = await plane.http.post("/ingest/http", json=half(11))
            n_kept = await plane.database.count(ingested_parts)
            ends = await plane.http.post("/ingest/http", json=[half(0, "response"), half(1, "response")])
            room = await plane.http.post("/ingest/http", json=half(11))
            counts = counted(plane)

        assert (full.status_code, again.status_code, n_kept) == (429, 429, 10)
        assert full.headers["retry-after"] == "30"
        assert full.json()["detail"].startswith(
            "10 parts of exchanges without a key wait for the rest (ingest.max_waiting): send their other parts, or "
        )
        assert (ends.json()["taken"], room.json()["waiting"]) == (2, 1)
        assert counts == {("http", "waiting"): 11, ("http", "refused"): 2, ("http", "taken"): 2}

    async def test_keys_do_not_share_it(self, tmp_path: Path) -> None:
        """It is counted for each key by itself, by every worker that shares the store."""
        config = OPEN | {"ingest": {"enabled": True, "max_waiting": 5}}
        async with control_plane(tmp_path, **config) as plane:
            for name in ("a", "b"):
                sent = pairs.read([half(number) for number in range(5)], name)
                assert await plane.intake.take(sent, "http", client(name)) == {"waiting": 5}
            with pytest.raises(TooManyWaitingError, match=r'of key "a" wait for the rest'):
                await plane.intake.take(pairs.read([half(9)], "a"), "http", client("a"))
            counts = [await ingested.count_parts_of(plane.database, name) for name in ("a", "b", None)]

        assert counts == [5, 5, 0]


class TestMemory:
    async def test_of_a_key(self, plane: ControlPlane) -> None:
        """One key takes half of it at most, a single request counts no more, and all comes back."""
        with plane.intake.rooms.request("a") as first, plane.intake.rooms.request("a") as second:
            first.hold(MOST_BYTES_OF_A_KEY * 3)
            with pytest.raises(BusyError):
                second.hold(1)
            with plane.intake.rooms.request("b") as third:
                third.hold(MOST_BYTES_OF_A_KEY)
                with plane.intake.rooms.request("c") as fourth, pytest.raises(BusyError):
                    fourth.hold(1)
            assert plane.tap.buffer_factor == 1.0
        with plane.intake.rooms.request("a") as again:
            again.hold(MOST_BYTES_OF_A_KEY)

        assert plane.tap.reserve(2 * intake.MOST_BYTES)

    async def test_an_exchange_whose_parts_are_large(self, tmp_path: Path) -> None:
        """Parts that come when it has twice as many bytes as a body may have are rejected by its name."""
        config = OPEN | {"ingest": {"enabled": True, "max_body_bytes": 1024}}
        async with control_plane(tmp_path, **config) as plane:
            await plane.http.post("/ingest/http", json=half(0))
            key = (await ingested.waited_too_long(plane.database, before=9e9, limit=1))[0][0]
            await ingested.add_parts(plane.database, [StoredPart(key, b"{}" + b" " * 3000)])
            answer = await plane.http.post("/ingest/http", json=half(0) | {"request": {"more": 1}})

        assert answer.status_code == 400
        assert answer.json()["detail"] == "exchange h0: no more parts of it are kept"
