"""`/live` and `/annotations`: estimates, alarms, the ledger and people's labels."""

from pathlib import Path

import pytest

from auditors.streams.estimates import METHOD, WINDOW_METHOD
from tests.support.gateway.control_plane import audit_identities, audit_one, control_plane, drifted


async def test_estimates_have_intervals(tmp_path: Path) -> None:
    """A stream's mean comes with its interval, range and counts, excluded audits apart."""
    async with control_plane(tmp_path) as plane:
        for number, value in enumerate([0.0, 1.0, None]):
            await audit_one(plane, number, value)
        [one] = (await plane.http.get("/live/estimates")).json()

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


async def test_undefined_is_not_zero(tmp_path: Path) -> None:
    """A stream whose audits gave no number has a null value and a reason."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, None)
        [one] = (await plane.http.get("/live/estimates")).json()

    assert one["value"] is None
    assert "no audit has given a value" in one["reason"]


@pytest.mark.parametrize(
    ("query", "n_found"),
    [
        ({"model": "qwen"}, 1),
        ({"model": "other"}, 0),
        ({"axis": "race"}, 0),
        ({"auditor": "judge", "axis": "gender"}, 1),
    ],
)
async def test_estimates_can_be_filtered(tmp_path: Path, query: dict[str, str], n_found: int) -> None:
    """model, axis and auditor narrow the list."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 0.0)

        assert len((await plane.http.get("/live/estimates", params=query)).json()) == n_found


async def test_alarm_rises_and_is_acknowledged(tmp_path: Path) -> None:
    """A drift is listed with its evidence and the exchange behind it until somebody acknowledges it."""
    async with control_plane(tmp_path, drift={"average_run_length": 20}) as plane:
        await drifted(plane)
        [alarm] = (await plane.http.get("/live/alarms")).json()
        lowered = await plane.http.post(f"/live/alarms/{alarm['stream']}/acknowledge")

        assert alarm["log_evidence"] >= alarm["log_threshold"]
        assert alarm["exchange_id"].startswith("exchange-")
        assert alarm["since"] > 0
        assert alarm["direction"] == "rising"
        assert alarm["exchange_ids"]
        assert all(one.startswith("exchange-") for one in alarm["exchange_ids"])
        assert alarm["reference_run"] is None
        assert -1 <= alarm["reference"][0] <= alarm["reference"][1] <= 2
        assert (lowered.status_code, lowered.json()["alarm"]) == (200, False)
        assert (await plane.http.get("/live/alarms")).json() == []


async def test_unknown_alarm_is_a_404(tmp_path: Path) -> None:
    """Acknowledging what does not exist is a 404 that names it."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.post("/live/alarms/nope/acknowledge")

    assert answer.status_code == 404
    assert '"nope"' in answer.json()["detail"]


async def test_ledger_sums_over_strata(tmp_path: Path) -> None:
    """Outcomes are given in all and by stratum."""
    async with control_plane(tmp_path) as plane:
        await audit_one(plane, 1, 0.0)
        await audit_one(plane, 2, 0.0)
        ledger = (await plane.http.get("/live/ledger")).json()

    assert ledger == {"outcomes": {"queued": 2}, "strata": {"other": {"queued": 2}}}


async def test_estimates_of_a_window(tmp_path: Path) -> None:
    """The newest audits of a stream by number or time; the whole stream without a window has other bounds."""
    async with control_plane(tmp_path) as plane:
        for number, value in enumerate((2.0, 2.0, -1.0, None)):
            await audit_one(plane, number, value)
        [whole] = (await plane.http.get("/live/estimates")).json()
        [newest] = (await plane.http.get("/live/estimates", params={"window": "2"})).json()
        [day] = (await plane.http.get("/live/estimates", params={"window": "1d"})).json()

    assert (whole["value"], whole["n"], whole["window"]) == (1.0, 3, None)
    assert (newest["value"], newest["n"], newest["n_excluded"], newest["window"]) == (-1.0, 1, 1, "2")
    assert (day["value"], day["n"], day["window"]) == (1.0, 3, "1d")
    assert (whole["method"], day["method"]) == (METHOD, WINDOW_METHOD)


@pytest.mark.parametrize("window", ["0", "5 minutes", "-1", "1w", ""])
async def test_a_window_that_means_nothing_is_refused(tmp_path: Path, window: str) -> None:
    """One line says what a window looks like."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.get("/live/estimates", params={"window": window})

    assert answer.status_code == 400
    assert f'window "{window}" is neither a number of audits (500) nor a time' in answer.json()["detail"]


async def test_labels_correct_an_estimate(tmp_path: Path) -> None:
    """Forty labels one below the judge's scores bring the corrected mean down by one; twenty only say how many.

    Ten scores of fifty that are missing may have been anything in -1..2.
    """
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
    assert missing["corrected"]["lower"] == pytest.approx(0.8 * after["corrected"]["lower"] - 0.2)
    assert missing["corrected"]["upper"] == pytest.approx(0.8 * after["corrected"]["upper"] + 0.4)
    assert before["corrected"]["value"] is None
    assert before["corrected"]["reason"].startswith("20 labels")
    assert after["value"] == pytest.approx(0.5)
    assert after["corrected"]["value"] == pytest.approx(-0.5)
    assert after["corrected"]["lower"] < -0.5 < after["corrected"]["upper"]


async def test_labels_tell_a_judges_errors(tmp_path: Path) -> None:
    """Of ten that people find favoured the judge saw eight, of five others it cleared four."""
    people_and_judge = [(1.0, 2.0)] * 8 + [(2.0, 0.0)] * 2 + [(0.0, -1.0)] * 4 + [(-1.0, 1.0)]
    async with control_plane(tmp_path) as plane:
        for number, (person, judge) in enumerate(people_and_judge):
            exchange_id = await audit_one(plane, number, judge)
            body = {"exchange_id": exchange_id, "auditor": "judge", "axis": "gender", "group": "men"}
            body |= {"reference": "women", "annotator": "ann"}
            await plane.http.post("/annotations", json={**body, "value": person})
        [found] = (await plane.http.get("/live/estimates")).json()
        [window] = (await plane.http.get("/live/estimates?window=10")).json()

    errors = found["judge_errors"]
    assert (errors["n_positive"], errors["sensitivity"]) == (10, 0.8)
    assert (errors["n_negative"], errors["specificity"]) == (5, 0.8)
    assert errors["sensitivity_interval"][0] < 0.8 < errors["sensitivity_interval"][1]
    assert errors["specificity_interval"][1] - errors["specificity_interval"][0] > 0.4
    assert window["judge_errors"] is None


async def test_the_most_normal_identity_is_named_with_the_axis_score(tmp_path: Path) -> None:
    """By axis, model and instrument, on the score's row only; a tie after few audits is not told apart."""
    async with control_plane(tmp_path) as plane:
        for number in range(3):
            await audit_identities(plane, number, {"man": 0.2, "woman": 0.3, "non_binary": None})
            await audit_identities(plane, number, {"man": 0.9, "woman": 0.4}, embedder="other")
            await audit_identities(plane, number, {"white": 0.1, "black": None}, axis="race")
        rows = (await plane.http.get("/live/estimates", params={"auditor": "embedding"})).json()
        [windowed] = [
            one["most_normal"]["group"]
            for one in (await plane.http.get("/live/estimates?window=1d&axis=gender")).json()
            if one["metric"] == "representative_bias_score" and one["instrument"] == "v1 e"
        ]

    named = {(one["axis"], one["instrument"]): one["most_normal"] for one in rows if one["group"] is None}
    assert set(named) == {("gender", "v1 e"), ("gender", "v1 other"), ("race", "v1 e")}
    first = named["gender", "v1 e"]
    assert (first["group"], first["runner_up"], first["not_told_apart"]) == ("man", "woman", ["non_binary", "woman"])
    assert (first["value"], first["gap"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert named["gender", "v1 other"]["group"] == "woman"
    assert named["race", "v1 e"] is None
    assert windowed == "man"
    assert all(one["most_normal"] is None for one in rows if one["group"] is not None)


async def test_a_most_normal_identity_can_be_told_apart(tmp_path: Path) -> None:
    """After a hundred audits at .1 and 1.8 the bounds are apart."""
    async with control_plane(tmp_path) as plane:
        for number in range(100):
            await audit_identities(plane, number, {"man": 0.1, "woman": 1.8})
        rows = (await plane.http.get("/live/estimates")).json()

    [found] = [one["most_normal"] for one in rows if one["metric"] == "representative_bias_score"]
    assert (found["group"], found["not_told_apart"]) == ("man", [])


@pytest.mark.parametrize("path", ["/live/estimates", "/live/exchanges"])
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"auditor": "judg"}, 'unknown auditor "judg" (did you mean "judge"?); known: affinity, counterfactual, '),
        ({"axis": "sex"}, 'unknown axis "sex"; known: gender, religion, '),
    ],
)
async def test_a_name_that_no_number_has(
    tmp_path: Path, path: str, query: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter with a mistake in it is one line that lists the names there are, not an empty answer."""
    monkeypatch.setenv("CONTROL_KEY", "sesame")
    async with control_plane(tmp_path, server={"admin_key_env": "CONTROL_KEY"}) as plane:
        answer = await plane.http.get(path, params=query, headers={"authorization": "Bearer sesame"})

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(words)
