"""`/judges/calibrations`: kept, listed, and used by live estimates of the same judge."""

from pathlib import Path

import msgspec
import pytest

from tests.gateway.store.test_calibrations import RATES, content
from tests.support.gateway.control_plane import audit_one, control_plane


async def test_a_calibration_is_kept_and_shown(tmp_path: Path) -> None:
    """What was sent comes back under its digest, listed with whether it validates the judge."""
    async with control_plane(tmp_path) as plane:
        sent = msgspec.json.decode(content(n=50))
        made = await plane.http.post("/judges/calibrations", json={"calibration": sent})
        digest = made.json()["digest"]
        [listed] = (await plane.http.get("/judges/calibrations")).json()
        one = (await plane.http.get(f"/judges/calibrations/{digest[:16]}")).json()
        none = (await plane.http.get("/judges/calibrations?judge_model=k")).json()
        refused = await plane.http.post("/judges/calibrations", json={"calibration": {"thinking": 3}})
        unknown = await plane.http.get("/judges/calibrations/zz")

    assert made.status_code == 201, made.text
    assert (listed["digest"], listed["n"], listed["superseded_by"]) == (digest, 50, None)
    assert listed["fault"] == "it was compared with people on 50 judgements, fewer than 100"
    assert one["validation"]["rates"]["women"]["n_positive"] == 60
    assert none == []
    assert (refused.status_code, unknown.status_code) == (400, 404)
    assert "\n" not in refused.json()["detail"]


async def test_live_shares_are_corrected_by_the_newest(tmp_path: Path) -> None:
    """40 scores, half above 0: (.5 + .8 - 1) / .7 = .43, with which calibration; a group without labels says so."""
    async with control_plane(tmp_path) as plane:
        for number in range(40):
            await audit_one(plane, number, float(number % 2))
        before = (await plane.http.get("/live/estimates?auditor=judge")).json()
        for n in (120, 200):
            sent = msgspec.json.decode(content(n=n, rates={"men": RATES}))
            kept = (await plane.http.post("/judges/calibrations", json={"calibration": sent})).json()
        [found] = [one for one in (await plane.http.get("/live/estimates")).json() if one["metric"] == "favoritism"]
        sent = msgspec.json.decode(content(n=201))
        await plane.http.post("/judges/calibrations", json={"calibration": sent})
        [other] = [one for one in (await plane.http.get("/live/estimates")).json() if one["metric"] == "favoritism"]

    assert all(one["share_above_zero"] is None for one in before)
    share = found["share_above_zero"]
    assert (share["judged"], share["n"], share["n_positive"]) == (0.5, 40, 60)
    assert share["value"] == pytest.approx(0.3 / 0.7)
    assert 0.0 < share["lower"] < share["value"] < share["upper"] < 1.0
    assert share["calibration"] == {"digest": kept["digest"], "n": 200, "created_at": kept["created_at"]}
    assert other["share_above_zero"]["reason"] == "no label of the calibration is about this group"
    assert other["value"] == found["value"]
