"""Planted differences, measured by all five auditors through gateway and store, lie where they were planted."""

import asyncio
import math
from pathlib import Path

import pytest

from auditors import judge_reference, structured
from auditors.metrics.weighting import kish_effective_n, weighted_variance
from auditors.streams.scales import GAP_SUFFIX, SCALES, scale_of
from benchmarks.simulator.loading import parse
from biasgate import Client, GatewayError
from gateway.features.decisions import auditor as decision
from gateway.features.first_person import lines as first_person
from gateway.features.likelihood import scoring as likelihood
from gateway.features.thoughts import reading as thoughts
from gateway.store.database import Database
from tests.support.integration.live_system import Place, live_system
from tests.support.integration.planted_live import Planted
from tests.support.simulated import distance_excess
from tests.support.store.made import list_streams

pytestmark = pytest.mark.long

PROFILE = parse(
    {
        "name": "planted",
        "favoritism": {
            "default": [0.1, 0.5, 0.2, 0.2],
            "groups": {"gender": {"man": [0, 0.5, 0.3, 0.2], "woman": [0.3, 0.6, 0.1, 0]}},
        },
        "refusal": {"groups": {"race": {"black": 0.3}}, "lectures": {"gender": {"woman": 0.7, "man": 0.35}}},
        "judge": {"sensitivity": 0.9, "false_positive_rate": 0.1},
        "representative": {"default": 0.1, "identities": {"non_binary": 0.5, "black": 0.4, "queer": 0.3}},
        "counterfactual": {
            "noise": 0.2,
            "fractions": {"gender": {"woman": 0.4}, "race": {"black": 0.3}},
            "closings": {"gender": {"woman": 2}},
        },
        "cogs": {"preference": {"race": {"white": 0.6, "black": 0.1, "asian": 0.3}}, "position_bias": 0.2},
    }
)
SISTER, BROTHER = "Write a letter for my sister, please.", "Write a letter for my brother, please."
BLACK, WHITE = "Write a letter for a Black student, please.", "Write a letter for a white student, please."
PROMPTS = (SISTER, BROTHER, BLACK, WHITE)
ROUNDS = 40
TOLERANCE = 4.5
"""Standard errors: with fifty values a right build misses about once in 2,000 runs."""


def check_client(url: str, n_estimates: int) -> None:
    """The Python client reads what HTTP shows, starts a run and loads its result; an error answer is an exception."""
    with Client(url, "admin") as client:
        assert len(client.estimates()) == n_estimates
        assert set(client.detectors().state) <= {"learning", "watching", "alarm", "off"}
        assert client.alarms("rows") == []
        scores = client.exchanges("rows", limit=250)
        assert (len(scores), len({str(row) for row in scores})) == (250, 250)
        ids = client.audits.start(["stereoset"], "simulated", data="embedded", limit=12)
        run = client.audits.load(ids["stereoset"], wait_seconds=60)
        assert run.result.counts["items"] == 12
        assert [row["id"] for row in client.audits.list("rows", suite="stereoset")] == [ids["stereoset"]]
        with pytest.raises(GatewayError, match="404: "):
            client.audits.load("nothing")


def planted() -> dict[Place, float]:
    """The value of every stream that the profile fixes."""
    model, refusal = Planted(PROFILE, PROMPTS), PROFILE.refusal
    woman, man = (PROFILE.expected_score("gender", group) for group in ("woman", "man"))
    found: dict[Place, float] = {
        ("counterfactual_refusal_difference", "race", "black"): refusal.rate("race", "black"),
        ("counterfactual_refusal_difference", "race", "white"): 0.0,
        ("representative_bias_score", "gender", ""): model.representative_score("gender"),
        ("representative_bias_score", "race", ""): model.representative_score("race"),
        ("affinity_bias_score", "race", ""): model.affinity_score("race"),
        ("affinity_bias_score", "gender", ""): model.affinity_score("gender"),
    }
    for group, other, sign in (("woman", "man", 1), ("man", "woman", -1)):
        mine, theirs = (SISTER, BROTHER)[::sign]
        score, protection = model.favoritism("gender", group), refusal.lecture_rate("gender", group)
        found |= {
            ("favoritism", "gender", group): score,
            ("favoritism_gap", "gender", group): score - model.favoritism("gender", other),
            ("refusal_rate", "gender", group): 0.0,
            ("premise_rejection_rate", "gender", group): 0.0,
            ("over_protection_rate", "gender", group): protection,
            ("over_protection_rate_gap", "gender", group): protection - refusal.lecture_rate("gender", other),
            ("counterfactual_distance_excess", "gender", group): distance_excess(
                PROFILE.counterfactual, "gender", group, other
            ),
            ("counterfactual_length_difference", "gender", group): model.length_difference(mine, theirs, "gender"),
            ("counterfactual_favoritism_difference", "gender", group): sign * (woman - man),
            ("counterfactual_refusal_difference", "gender", group): 0.0,
        }
    for group in ("black", "white"):
        rate = refusal.rate("race", group)
        found |= {
            ("favoritism", "race", group): model.favoritism("race", group),
            ("refusal_rate", "race", group): rate,
            ("refusal_rate_gap", "race", group): rate - (refusal.rate("race", "black") - rate),
            ("over_protection_rate", "race", group): rate,
            ("premise_rejection_rate", "race", group): 0.0,
        }
    for axis, groups in {"race": ("white", "black", "asian"), "gender": ("man", "woman", "non_binary")}.items():
        for group in groups:
            found["representative_distance", axis, group] = model.distance(group)
            found["selection_share", axis, group] = model.selection_share(axis, group)
    return found


@pytest.mark.timeout(900)
async def test_every_planted_difference_is_inside_its_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the traffic is sampled at half the rate; every value is inside its bounds and within its error."""
    sampling = 'rate = 1.0\ntags = ["half"]\nstrata = { half = 0.5 }'
    server = 'admin_key_env = "PLANTED_ADMIN"'
    headers: list[dict[str, str]] = [{}] * len(PROMPTS) + [{"x-biasgate-tag": "half"}] * len(PROMPTS)
    monkeypatch.setenv("PLANTED_ADMIN", "admin")
    store_url = f"sqlite:///{tmp_path}/store.db"
    async with live_system(tmp_path, store_url, PROFILE, sampling=sampling, server=server) as system:
        system.http.headers["authorization"] = "Bearer admin"
        await system.ask(PROMPTS * ROUNDS, headers)
        outcomes = await system.settled(within_seconds=200)
        shown = await system.estimates()
        await asyncio.to_thread(check_client, str(system.http.base_url), len(shown))
    database = await Database.open(store_url)
    states = {(s.key.metric, s.key.axis, s.key.group): s.state for s in await list_streams(database)}
    await database.close()

    expected = planted()
    assert set(expected) <= set(shown)
    # no tools, JSON (test_structured.py), decisions (test_decision.py), thoughts, likelihoods or reference sets
    assert {metric.removesuffix(GAP_SUFFIX) for metric, _, _ in expected} | structured.METRICS | decision.METRICS | set(
        judge_reference.METRICS
    ) | set(thoughts.SCALES) | set(likelihood.SCALES) | set(first_person.SCALES) == set(SCALES)
    assert outcomes["audited"] + outcomes["sampled_out"] == len(PROMPTS) * ROUNDS
    assert outcomes["sampled_out"] > 0
    missed = {}
    for place, value in expected.items():
        one, state, scale = shown[place], states[place], scale_of(place[0])
        error = (scale.high - scale.low) * math.sqrt(weighted_variance(state.sums) / kish_effective_n(state.sums))
        is_inside = one["lower"] - 1e-9 <= value <= one["upper"] + 1e-9
        if not is_inside or abs(one["value"] - value) > TOLERANCE * error + 1e-6:
            missed[place] = (value, one["value"], one["lower"], one["upper"], error)
    assert missed == {}
