"""Servers behind one address: told apart by the fingerprint of their answers, with a number and an interval each."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.store import replicas, tables
from tests.support.gateway.control_plane import ControlPlane, audit_one, control_plane

NEW, OLD = "vllm-0.32.0-1a2b3c4d", "vllm-0.31.0-5e6f7a8b"


async def mixed(plane: ControlPlane) -> str:
    """Twelve answers of one server and eight of another, one without a score; the id of their stream."""
    for number in range(12):
        await audit_one(plane, number, -1.0, fingerprint=NEW)
    for number in range(12, 20):
        await audit_one(plane, number, None if number == 19 else 2.0, fingerprint=OLD)
    [stream] = (await plane.http.get("/live/estimates")).json()
    return str(stream["stream"])


async def test_each_has_its_mean_and_interval(tmp_path: Path) -> None:
    """A score that is missing is counted and is no zero; what names no server stands apart."""
    async with control_plane(tmp_path) as plane:
        stream = await mixed(plane)
        await audit_one(plane, 20, 0.0)
        async with plane.database.begin() as connection:
            await connection.execute(sa.delete(tables.exchanges).where(tables.exchanges.c.id == "exchange-0"))
        found = (await plane.http.get(f"/live/streams/{stream}/replicas")).json()

    names = [one["system_fingerprint"] for one in found]
    new, old, unknown = (one["estimate"] for one in found)
    assert names == [NEW, OLD, None]
    assert (new["value"], new["n"]) == (-1.0, 11)
    assert (old["value"], old["n"], old["excluded"]) == (pytest.approx(2.0), 7, {"refusal": 1})
    assert (unknown["value"], unknown["n"]) == (-0.5, 2)  # the deleted one and the one that names none
    for one in (new, old, unknown):
        assert one["lower"] <= one["value"] <= one["upper"]
        assert (one["stream"], one["window"]) == (stream, "5000")
    assert all(one["first_at"] <= one["last_at"] for one in found)


async def test_fingerprints_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that names another one each time fills no page: those with most audits are shown."""
    monkeypatch.setattr(replicas, "MOST_REPLICAS", 2)
    async with control_plane(tmp_path) as plane:
        for number in range(6):
            await audit_one(plane, number, 0.0, fingerprint=OLD if number < 2 else f"one-{number}")
        [stream] = (await plane.http.get("/live/estimates")).json()
        found = (await plane.http.get(f"/live/streams/{stream['stream']}/replicas")).json()
    assert [one["system_fingerprint"] for one in found] == [OLD, "one-2"]
