"""Canaries over HTTP: started, listed, cancelled, and refused in one line."""

from pathlib import Path
from typing import Any

from tests.support.gateway.control_plane import control_plane

ASKED: dict[str, Any] = {"stable": {"model": "qwen"}, "canary": {"model": "qwen-tuned"}}
UPSTREAMS = [
    {"name": "up", "base_url": "http://127.0.0.1:9", "models": ["qwen", "qwen-tuned"]},
    {"name": "second", "base_url": "http://127.0.0.1:9", "models": ["qwen"]},
]
SECTIONS: dict[str, Any] = {
    "upstreams": UPSTREAMS,
    "aliases": {"newest": "qwen-tuned"},
    "auditors": {"counterfactual": {"enabled": True}},
}


async def test_a_canary_is_started_listed_and_cancelled(tmp_path: Path) -> None:
    """It is queued with its defaults and aliases resolved; cancelled, it is held and cannot be cancelled again."""
    async with control_plane(tmp_path, **SECTIONS) as plane:
        made = await plane.http.post("/canaries", json={**ASKED, "canary": {"model": "newest"}})
        path = f"/canaries/{made.json()['id']}"
        one = (await plane.http.get(path)).json()
        listed = (await plane.http.get("/canaries")).json()
        jobs = await plane.queue.pending("run_canary")
        cancelled = await plane.http.post(f"{path}/cancel", json={})
        again = await plane.http.post(f"{path}/cancel", json={})
        missing = await plane.http.get("/canaries/none")

    assert made.status_code == 202, made.text
    same = ("id", "status", "verdict", "reasons", "created_at", "started_at", "finished_at")
    assert listed == [{name: one[name] for name in same} | {"stable": "qwen", "canary": "qwen-tuned"}]
    assert jobs == [{"canary_id": made.json()["id"]}]
    assert (one["status"], one["verdict"], one["canary"]["model"]) == ("queued", "undecided", "qwen-tuned")
    assert (one["smallest_difference"], one["alpha"], one["max_pairs"]) == (0.1, 0.01, 2000)
    assert (one["auditors"], one["gaps"], one["e_value"]) == (["counterfactual"], [], None)
    assert (cancelled.json()["status"], cancelled.json()["verdict"]) == ("done", "hold")
    assert again.status_code == 409
    assert missing.status_code == 404
    assert missing.json()["detail"] == 'no canary has the id "none": GET /canaries lists them'


BAD_INPUT: list[tuple[dict[str, Any], str]] = [
    ({"canary": {"model": "qwen-tunde"}}, 'unknown model "qwen-tunde" (did you mean "qwen-tuned"?)'),
    ({"canary": {"model": "qwen"}}, 'stable and canary are both "qwen"'),
    ({"canary": {"model": "qwen", "upstream": "upp"}}, 'canary.upstream: unknown upstream "upp" (did you mean "up"?)'),
    ({"canary": {"model": "qwen-tuned", "upstream": "second"}}, '"second" is not configured for "qwen-tuned"'),
    ({"canary": {}}, "missing required field"),
    ({"smallest_difference": 1.5}, "<= 1"),
    ({"tolerance": 0.1}, "tolerance 0.1 must be below smallest_difference 0.1"),
    ({"alpha": 0.5}, "<= 0.2"),
    ({"max_pairs": 5}, ">= 20"),
    ({"auditors": ["judge"]}, 'auditor "judge" cannot be replayed'),
    ({"auditors": ["decision"]}, 'auditor "decision" is not enabled: set auditors.decision.enabled'),
    ({"axes": ["gendre"]}, 'unknown axis "gendre" (did you mean "gender"?)'),
    ({"pairs": 5}, "unknown field"),
]


async def test_bad_input_is_one_line(tmp_path: Path) -> None:
    """What cannot be compared is a problem that says what, and nothing is queued."""
    async with control_plane(tmp_path, **SECTIONS) as plane:
        for changes, detail in BAD_INPUT:
            answer = await plane.http.post("/canaries", json=ASKED | changes)
            assert answer.status_code == 400, answer.text
            assert detail in answer.json()["detail"]
        assert (await plane.http.get("/canaries")).json() == []


async def test_canaries_that_wait_are_bounded(tmp_path: Path) -> None:
    """One more than audits.max_queued is answered with 429 and a time to wait."""
    async with control_plane(tmp_path, **SECTIONS, audits={"max_queued": 1}) as plane:
        first = await plane.http.post("/canaries", json=ASKED)
        second = await plane.http.post("/canaries", json=ASKED)

    assert (first.status_code, second.status_code) == (202, 429)
    assert "1 canaries wait; audits.max_queued is 1" in second.json()["detail"]
    assert "retry-after" in second.headers
