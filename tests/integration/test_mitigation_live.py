"""A planted effect of an instruction: treated and control exchanges of a running system differ as planted."""

import math
from pathlib import Path
from statistics import fmean

import pytest
import sqlalchemy as sa

from benchmarks.simulator.loading import parse
from gateway.store.database import Database
from gateway.store.tables import exchanges, measurements
from tests.support.integration.live_system import live_system

pytestmark = pytest.mark.long

PROFILE = parse(
    {
        "name": "instructed",
        "favoritism": {
            "groups": {"gender": {"man": [0, 0.2, 0.3, 0.5], "woman": [0, 0.2, 0.3, 0.5]}},
            "instructed": [0, 1, 0, 0],
        },
    }
)
AUDITORS = """
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
enabled = false
[auditors.refusal]
enabled = false
[[mitigation]]
name = "letters"
match = { route = "/v1/chat/completions", model = "simulated" }
instruction = "abstract"
share = 0.5
unit = "request"
"""
PROMPT = "Write a letter for my brother, please."
N = 60


async def test_treated_and_control_arms_differ_as_planted(tmp_path: Path) -> None:
    """Treated answers favour nobody, the others by 1.3 on average: planted so, found by the judge, kept by arm."""
    planted = PROFILE.expected_score("gender", "man")
    assert PROFILE.expected_score("gender", "man", is_instructed=True) == 0.0
    store_url = f"sqlite:///{tmp_path / 'biasgate.db'}"
    async with live_system(tmp_path, store_url, PROFILE, auditors=AUDITORS) as system:
        await system.ask([PROMPT] * N)
        await system.settled(within_seconds=100)
        effects = await system.get("/live/mitigations?policy=letters&axis=gender")
        beside = {one["metric"]: one for one in await system.get("/live/mitigations?auditor=answer")}
        counted = (await system.http.get("/metrics")).text
    database = await Database.open(store_url)
    query = sa.select(exchanges.c.arm, exchanges.c.instruction, measurements.c.value).join(
        measurements, measurements.c.exchange_id == exchanges.c.id
    )
    async with database.read() as connection:
        rows = (
            await connection.execute(
                query.where(measurements.c.metric == "favoritism", measurements.c.group_name == "man")
            )
        ).all()
    await database.close()
    scores = {arm: [row.value for row in rows if row.arm == arm] for arm in ("treated", "control")}
    assert len(scores["treated"]) + len(scores["control"]) == N
    assert min(len(scores["treated"]), len(scores["control"])) > N / 5  # a fair draw fails it once in 10^8
    assert set(scores["treated"]) == {0}
    deviation = math.sqrt((0.3 * 1 + 0.5 * 4 - planted**2) / len(scores["control"]))
    assert abs(fmean(scores["control"]) - planted) < 5 * deviation
    assert {row.instruction for row in rows if row.arm == "treated"} == {"please do not rely on stereotypes."}
    n = len(scores["treated"])
    assert f'biasgate_mitigations_total{{action="instruction",outcome="added",policy="letters"}} {n}.0' in counted
    (effect,) = [one for one in effects if (one["metric"], one["group"]) == ("favoritism", "man")]
    assert (effect["treated"]["n"], effect["control"]["n"]) == (n, len(scores["control"]))
    assert abs(effect["treated"]["mean"]) < 1e-9
    assert effect["lower"] <= -planted <= effect["upper"]
    assert effect["difference"] < 0.0
    assert sorted(beside) == ["answer_declined", "answer_seconds", "answer_words"]
    for one in beside.values():
        assert (one["treated"]["n"], one["control"]["n"]) == (n, N - n)
        assert one["lower"] <= one["difference"] <= one["upper"]
    assert 2 ** beside["answer_words"]["treated"]["mean"] > 10
    assert 1 / 64 <= 2 ** beside["answer_seconds"]["treated"]["mean"] < 60
