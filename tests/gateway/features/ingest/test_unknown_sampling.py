"""Exchanges of unknown sampling never share a number with others, and no number of theirs has an interval."""

from pathlib import Path

import pytest

from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import NO_PROBABILITY
from auditors.streams.state import UNKNOWN_SAMPLING
from gateway.auditor.live_series import LiveSeries
from gateway.features.labelling import annotations, api
from gateway.features.labelling.annotations import AnnotationRequest
from gateway.store import exchanges
from gateway.store.database import Database
from tests.support.gateway.control_plane import control_plane
from tests.support.store.made import exchange, list_streams, measurement, record


async def audit(database: Database, number: int, value: float, sender_rate: float | None) -> str:
    """A stored exchange with a score of a man and of a woman; its id."""
    one = exchange(id=f"e{number}", sender_rate=sender_rate, inclusion_probability=0.5)
    found = [measurement(value, group="men"), measurement(-value, group="women")]
    await exchanges.insert_batch(database, [one], {})
    await record(database, one, found, settings=DriftSettings())
    return one.id


async def test_estimates_windows_histories_and_metrics(tmp_path: Path) -> None:
    """Each number has one stream with an interval and one without, of another metric family, so sums stay apart."""
    async with control_plane(tmp_path) as plane:
        for number in range(20):
            is_known = number % 2 == 0
            await audit(plane.database, number, 1.0 if is_known else 0.0, 0.5 if is_known else None)
        for query in ("", "?window=30"):
            found = (await plane.http.get(f"/live/estimates{query}")).json()
            unknown = [one for one in found if one["instrument"].startswith(UNKNOWN_SAMPLING)]
            known = [one for one in found if one not in unknown]
            assert len(known) == len(unknown) >= 2
            values = [one for one in unknown if one["value"] is not None]
            assert values
            assert {(one["lower"], one["upper"], one["reason"]) for one in values} == {(None, None, NO_PROBABILITY)}
            of_groups = [one["value"] for one in values if not one["metric"].endswith("_gap")]
            assert of_groups == pytest.approx([0.0] * len(of_groups), abs=1e-9)
            men = [one for one in known if one["group"] == "men" and one["metric"] == "favoritism"]
            assert [one["value"] for one in men] == pytest.approx([1.0])
            assert all(one["lower"] is not None for one in men)
        shown = values[0]["stream"]
        history = (await plane.http.get(f"/live/streams/{shown}/history")).json()
        page = (await plane.http.get("/console")).text
        listed = await list_streams(plane.database)

    assert history["buckets"]
    assert all(bucket["lower"] is None for bucket in history["buckets"])
    assert "no interval" in page
    assert NO_PROBABILITY in page
    text = LiveSeries(DriftSettings()).text(listed, is_openmetrics=False).decode()
    lines = [line for line in text.splitlines() if 'group="men"' in line and 'metric="favoritism"' in line]
    unweighted = {line.partition("{")[0]: line for line in lines if 'sampling="unknown"' in line}
    weighted = {line.partition("{")[0]: line for line in lines if 'sampling="unknown"' not in line}
    assert float(weighted["biasgate_live_estimate"].split()[-1]) == pytest.approx(1.0)
    assert "biasgate_live_received_mean" not in weighted
    assert float(unweighted["biasgate_live_received_mean"].split()[-1]) == pytest.approx(0.0, abs=1e-9)
    assert not {name for name in unweighted if name.startswith(("biasgate_live_estimate", "biasgate_live_effective"))}
    assert "biasgate_drift_alarm" in unweighted


async def test_records_and_labels(tmp_path: Path) -> None:
    """An exchange says why its probability is null; its label has none, and no project of raters draws it."""
    async with control_plane(tmp_path, server={"admin_key_env": "UNKNOWN_ADMIN"}) as plane:
        for number in range(4):
            await audit(plane.database, number, 1.0, None)
        headers = {"authorization": "Bearer admin"}
        record = (await plane.http.get("/live/exchanges/e1", headers=headers)).json()
        listed = (await plane.http.get("/live/exchanges", headers=headers)).json()
        label = AnnotationRequest(
            exchange_id="e1", auditor="judge", axis="gender", group="men", value=1.0, annotator="ann"
        )
        kept = await annotations.add(plane.database, label)
        with pytest.raises(Exception, match="0 scores"):
            await api.draw(plane.database, n=1, seed=0)

    assert (record["inclusion_probability"], record["sender_rate"]) == (None, None)
    assert "did not state" in record["reasons"]["inclusion_probability"]
    assert {one["inclusion_probability"] for one in listed} == {None}
    assert kept.inclusion_probability is None


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNKNOWN_ADMIN", "admin")
