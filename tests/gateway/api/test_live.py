"""`/live` and `/annotations`: estimates, alarms, the ledger and people's labels."""

from pathlib import Path

import pytest

from auditors.streams.drift import DriftSettings
from gateway.store import circuits, exchanges, served
from gateway.store.circuits import Key, WaitingAudit
from tests.support.gateway.control_plane import audit_identities, audit_one, control_plane, drifted
from tests.support.store.made import exchange


async def test_estimates_have_intervals(tmp_path: Path) -> None:
    """A stream's mean comes with its interval, range and counts, excluded audits apart; undefined it is null."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 0, None)
        [undefined] = (await plane.http.get("/live/estimates")).json()
        for number, value in enumerate([0.0, 1.0], start=1):
            await audit_one(plane, number, value)
        [one] = (await plane.http.get("/live/estimates")).json()

    assert (undefined["value"], "no audit has given a value" in undefined["reason"]) == (None, True)
    assert (one["auditor"], one["metric"], one["axis"], one["group"], one["model"]) == (
        "judge",
        "favoritism",
        "gender",
        "men",
        "qwen",
    )
    assert one["value"] == pytest.approx(0.5)
    assert one["range"] == [-1.0, 2.0]
    assert one["lower"] < 0.5 < one["upper"]
    assert (one["n"], one["n_excluded"], one["excluded"]) == (2, 1, {"refusal": 1})
    assert one["alarm"] is False


async def test_a_sick_judge_is_told_of(tmp_path: Path) -> None:
    """An open circuit comes with what waits for it and the last error, in fields and in one line; a closed one not."""
    key, one = Key("judge", "auditors.judge"), exchange()
    async with control_plane(tmp_path) as plane:
        before = (await plane.http.get("/live/circuits")).json()
        await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
        waiting = WaitingAudit(
            exchange_id=one.id,
            auditor=key.auditor,
            server=key.server,
            error="status 401",
            own_failures=0,
            since=one.received_at,
            failed_at=one.received_at,
        )
        await circuits.defer_audit(plane.database, waiting, retry_at=one.received_at)
        await circuits.open_circuit(plane.database, key, error="status 401", pause_seconds=1.0)
        [found] = (await plane.http.get("/live/circuits")).json()
        ready = (await plane.http.get("/readyz")).json()["checks"]
        await circuits.close_circuit(plane.database, key)
        after = (await plane.http.get("/live/circuits")).json()

    assert before == after == []
    assert (found["auditor"], found["server"], found["n_waiting"]) == ("judge", "auditors.judge", 1)
    assert found["last_error"] == "status 401"
    assert found["next_probe_at"] == pytest.approx(found["opened_at"] + 1.0)
    assert found["summary"].startswith("circuit open since ")
    assert found["summary"].endswith(" UTC, 1 exchange waits, last error: status 401 (auditors.judge)")
    assert set(ready) == {"store", "upstreams"}  # a client is served all the same


DRIFT = {"average_run_length": 20, "tolerance": 0.0, "reference": {"window": 20}}
"""As `drifted` audits by."""


async def test_detectors_before_there_is_anything_to_watch(tmp_path: Path) -> None:
    """How far the reference is, at which pace; what cannot be known yet is null, each with its reason, and never 0."""
    async with control_plane(tmp_path, drift={"reference": {"window": 2000}}) as plane:
        for number in range(48):
            await audit_one(plane, number, float(number % 2), at=1000.0 + 3600.0 * number)
        answer = await plane.http.get("/live/detectors")
        [one] = answer.json()

    assert answer.headers["x-total-count"] == "1"
    assert (one["state"], one["reference_n"], one["reference_window"]) == ("learning", 48, 2000)
    assert one["audits_per_day"] == pytest.approx(24.0, rel=0.05)
    assert one["days_until_watching"] == pytest.approx(1952 / one["audits_per_day"])
    undefined = [
        *("reference", "smallest_detectable_change", "log_evidence", "mean_before", "mean_since"),
        *("n_before", "n_since", "since", "direction", "fingerprint_before", "fingerprint_after"),
    ]
    assert [one[name] for name in undefined] == [None] * len(undefined)
    assert all(one["reasons"][name] for name in undefined)
    assert one["reasons"]["reference"] == "learning: 48 of 2000 audits of the reference"
    assert {name for name, value in one.items() if value is None} <= set(one["reasons"]) | {"axis", "group"}


async def test_detectors_of_an_alarm(tmp_path: Path) -> None:
    """Means and counts before and since, since when by the exchanges' times, the model then and now, what to read."""
    async with control_plane(tmp_path, drift=DRIFT) as plane:
        await served.observe(plane.database, "up", {"qwen": "old"}, asked_at=500.0, runs_of=lambda _: [])
        await served.observe(plane.database, "up", {"qwen": "new"}, asked_at=1021.5, runs_of=lambda _: [])
        await drifted(plane)
        [one] = (await plane.http.get("/live/detectors?state=alarm")).json()
        [alarm] = (await plane.http.get("/live/alarms")).json()

    assert (one["state"], one["direction"]) == ("alarm", "rising")
    assert (one["mean_before"], one["n_before"]) == (-1.0, 20)
    assert (one["mean_since"], one["n_since"]) == (2.0, 40)
    assert one["since"] == 1020.0
    assert (one["fingerprint_before"], one["fingerprint_after"]) == ("old", "new")
    for name in ("exchange_ids", "exchanges", "exchange_id", "log_evidence", "log_threshold"):
        assert one[name] == alarm[name]
    assert one["alarm_since"] == alarm["since"]
    assert (one["reference"]["lower"], one["reference"]["upper"]) == tuple(alarm["reference"])


async def test_an_acknowledgement_says_who_and_why(tmp_path: Path) -> None:
    """Without both, or with too much of them, it is one line of 400, and the alarm stands; of an unknown one a 404."""
    good = {"by": "ann", "reason": "checked"}
    async with control_plane(tmp_path, drift=DRIFT) as plane:
        await drifted(plane)
        [alarm] = (await plane.http.get("/live/alarms")).json()
        path = f"/live/alarms/{alarm['stream']}/acknowledge"
        unknown = await plane.http.post("/live/alarms/nope/acknowledge", json=good)
        empty = await plane.http.post(path)
        answers = [
            (await plane.http.post(path, json=body), words)
            for body, words in (
                ({"by": "ann"}, "reason"),
                (good | {"by": " "}, "by ' ' says nothing"),
                (good | {"reason": "\x00"}, "says nothing"),
                (good | {"by": "a" * 101}, "100"),
                (good | {"reason": "a" * 2001}, "2000"),
                (good | {"accept": True}, 'did you mean "accept_new_level"'),
                ([], "object"),
            )
        ]
        assert len((await plane.http.get("/live/alarms")).json()) == 1
        assert (await plane.http.get("/live/alarms/acknowledgements")).json() == []

    assert (unknown.status_code, '"nope"' in unknown.json()["detail"]) == (404, True)
    for answer, words in [(empty, 'send {"by": "NAME", "reason": "TEXT"}'), *answers]:
        assert answer.status_code == 400
        assert words in answer.json()["detail"]


@pytest.mark.parametrize("accept", [False, True])
async def test_an_acknowledgement_is_on_record(tmp_path: Path, accept: bool) -> None:
    """Who, why, when and how; the detector goes on with its reference, or learns a new one from the next audit on."""
    settings = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
    async with control_plane(tmp_path, drift=DRIFT) as plane:
        await drifted(plane)
        [before] = (await plane.http.get("/live/detectors")).json()
        path = f"/live/alarms/{before['stream']}/acknowledge"
        body = {"by": "ann", "reason": "the prompt is new", "accept_new_level": accept}
        first = await plane.http.post(path, json=body)
        second = await plane.http.post(path, json=body)
        for number in range(60, 65):
            await audit_one(plane, number, 2.0, settings=settings)
        [after] = (await plane.http.get("/live/detectors")).json()
        [entry] = (await plane.http.get("/live/alarms/acknowledgements")).json()
        none = (await plane.http.get("/live/alarms/acknowledgements", params={"stream": "other"})).json()

    assert (first.status_code, second.status_code) == (200, 409)
    assert "stands: GET /live/alarms" in second.json()["detail"]
    assert (entry["stream"], entry["by"], entry["reason"]) == (before["stream"], "ann", "the prompt is new")
    assert (entry["accept_new_level"], entry["direction"]) == (accept, "rising")
    assert entry["alarm_since"] == before["alarm_since"]
    assert after["acknowledged_at"] == entry["at"]
    assert none == []
    if accept:
        assert (after["state"], after["reference_n"]) == ("learning", 5)
    else:
        assert after["reference"] == before["reference"]


async def test_ledger_sums_over_strata(tmp_path: Path) -> None:
    """Outcomes are given in all and by stratum."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 0.0)
        await audit_one(plane, 2, 0.0)
        ledger = (await plane.http.get("/live/ledger")).json()

    assert ledger == {"outcomes": {"queued": 2}, "strata": {"other": {"queued": 2}}}


async def test_a_window_that_means_nothing_is_refused(tmp_path: Path) -> None:
    """One line says what a window looks like."""
    async with control_plane(tmp_path) as plane:
        for window in ("0", "5 minutes", "-1", "1w", ""):
            answer = await plane.http.get("/live/estimates", params={"window": window})
            assert answer.status_code == 400
            assert f'window "{window}" is neither a number of audits (500) nor a time' in answer.json()["detail"]


async def test_labels_correct_an_estimate(tmp_path: Path) -> None:
    """Forty labels one below the judge lower the mean by one, twenty give a count; missing scores may be -1 to 2."""
    async with control_plane(tmp_path) as plane:
        for number in range(40):
            exchange_id = await audit_one(plane, number, float(number % 2))
            body = {"exchange_id": exchange_id, "auditor": "judge", "axis": "gender", "group": "men"}
            body |= {"reference": "women", "annotator": "ann"}
            if number == 20:
                [before] = (await plane.http.get("/live/estimates")).json()
            answer = await plane.http.post("/annotations", json={**body, "value": number % 2 - 1.0})
            assert answer.status_code == 201
        [after] = (await plane.http.get("/live/estimates")).json()
        for number in range(40, 50):
            await audit_one(plane, number, None, status="error")
        [missing] = (await plane.http.get("/live/estimates")).json()

    assert missing["corrected"]["value"] == after["corrected"]["value"]
    assert missing["corrected"]["lower"] == pytest.approx(0.8 * after["corrected"]["lower"] - 0.2, abs=0.12)
    assert missing["corrected"]["upper"] == pytest.approx(0.8 * after["corrected"]["upper"] + 0.4, abs=0.12)
    assert before["corrected"]["value"] is None
    assert before["corrected"]["reason"].startswith("20 labels")
    assert after["value"] == pytest.approx(0.5)
    assert after["corrected"]["value"] == pytest.approx(-0.5)
    assert after["corrected"]["lower"] < -0.5 < after["corrected"]["upper"]


async def test_the_most_normal_identity_is_named_with_the_axis_score(tmp_path: Path) -> None:
    """By axis and instrument, on the score's row only; a tie after few audits is not told apart."""
    async with control_plane(tmp_path) as plane:
        for number in range(3):
            await audit_identities(plane, number, {"man": 0.2, "woman": 0.3, "non_binary": None})
            await audit_identities(plane, number, {"man": 0.9, "woman": 0.4}, embedder="other")
        rows = (await plane.http.get("/live/estimates", params={"auditor": "embedding"})).json()

    named = {row["instrument"]: row["most_normal"] for row in rows if row["group"] is None}
    first, other = named["v1 e"], named["v1 other"]
    assert (first["group"], first["runner_up"], first["not_told_apart"]) == ("man", "woman", ["non_binary", "woman"])
    assert (first["value"], first["gap"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert other["group"] == "woman"
    assert all(row["most_normal"] is None for row in rows if row["group"] is not None)


async def test_a_name_that_no_number_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with a mistake in it is one line that lists the names there are, not an empty answer."""
    monkeypatch.setenv("CONTROL_KEY", "sesame")
    async with control_plane(tmp_path, server={"admin_key_env": "CONTROL_KEY"}) as plane:
        plane.http.headers["authorization"] = "Bearer sesame"
        for path in ("/live/estimates", "/live/exchanges"):
            for query, words in (
                ("auditor=judg", 'unknown auditor "judg" (did you mean "judge"?); known: affinity, counterfactual, '),
                ("axis=sex", 'unknown axis "sex"; known: gender, religion, '),
                ("axs=race", 'unknown query parameter "axs" (did you mean "axis"?); known: auditor, axis, '),
            ):
                answer = await plane.http.get(f"{path}?{query}")
                assert answer.status_code == 400
                assert answer.json()["detail"].startswith(words)


async def test_the_history_of_a_stream(tmp_path: Path) -> None:
    """Means of periods in the metric's own unit, with the detector's reference, limits, evidence and alarm."""
    async with control_plane(tmp_path, drift=DRIFT) as plane:
        await drifted(plane)
        [alarm] = (await plane.http.get("/live/alarms")).json()
        [detector] = (await plane.http.get("/live/detectors")).json()
        found = (await plane.http.get(f"/live/streams/{alarm['stream']}/history")).json()
        newest = (await plane.http.get(f"/live/streams/{alarm['stream']}/history?window=5")).json()["buckets"]

    assert (found["n"], found["n_missing"], found["is_cut"], found["reason"]) == (60, 0, False, None)
    assert sum(one["n"] * one["value"] for one in found["buckets"]) == pytest.approx(20 * -1.0 + 40 * 2.0)
    assert all(one["lower"] <= one["value"] <= one["upper"] for one in found["buckets"])
    assert all(one["end"] - one["start"] == found["bucket_seconds"] for one in found["buckets"])
    assert sum(one["n"] for one in newest) == 5  # in two periods where one ended between them
    assert all(one["value"] == pytest.approx(2.0) for one in newest)
    for name in ("state", "reference", "limits", "log_evidence", "log_threshold", "since", "alarm_since"):
        assert found[name] == detector[name]


@pytest.mark.parametrize("path", ["history", "replicas"])
async def test_an_unknown_stream_is_a_404(tmp_path: Path, path: str) -> None:
    """The line says which id, cut to what can be read, and what lists the known ids."""
    async with control_plane(tmp_path) as plane:
        for stream in ("0" * 32, "x" * 400):
            answer = await plane.http.get(f"/live/streams/{stream}/{path}")
            assert answer.status_code == 404
            assert answer.json()["detail"] == (
                f'no live stream has the id "{stream[:40]}": GET /live/estimates lists them'
            )
