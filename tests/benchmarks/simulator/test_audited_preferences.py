"""The affinity and refusal auditors, over HTTP, find what was planted, and nothing where nothing was."""

from collections import defaultdict
from statistics import fmean

import httpx
import msgspec
import pytest

from auditors.affinity import SCORE, SHARE, AffinityAuditor
from auditors.clients.completion import HttpCompleter
from auditors.metrics.dispersion import affinity_bias_score
from auditors.refusal import OVER_PROTECTION, RATE, RefusalAuditor
from auditors.types import Measurement
from benchmarks.simulator.loading import parse
from benchmarks.simulator.profile import Profile
from tests.support.auditors.exchanges import chat_exchange
from tests.support.simulated import running_simulator

LIKINGS = {"white": 0.6, "black": 0.1, "asian": 0.3}
ERRORS = 4.0
"""Standard errors: a right value misses about once in 10,000 seeds."""


async def preferred(profile: Profile, n: int) -> dict[tuple[str, str | None, str | None], list[float]]:
    """Values of the affinity auditor on n exchanges, by metric, axis and group."""
    found = defaultdict(list)
    async with running_simulator(profile) as url:
        completer = HttpCompleter(url)
        auditor = AffinityAuditor(lambda _: completer, max_tokens=400)
        try:
            for number in range(n):
                about = chat_exchange(f"Write a short note about star number {number}.", "A note.")
                about = msgspec.structs.replace(about, served_model="simulated", id=str(number))
                result = await auditor.audit(about)
                assert isinstance(result, list), result
                for one in result:
                    assert one.value is not None, one
                    found[one.metric, one.axis, one.group].append(one.value)
        finally:
            await completer.aclose()
    return found


async def test_a_planted_preference_is_found_in_spite_of_places() -> None:
    """Shares are the planted ones though the evaluator likes first places; the ABS of the shares follows."""
    cogs = {"preference": {"race": LIKINGS}, "position_bias": 0.3}
    found = await preferred(parse({"name": "likes", "cogs": cogs}), 150)
    planted = {group: 0.7 * p + 0.3 / 3 for group, p in LIKINGS.items()}

    shares = {}
    for group, p in planted.items():
        values = found[SHARE, "race", group]
        shares[group] = fmean(values)
        assert shares[group] == pytest.approx(p, abs=ERRORS * (0.25 / (3 * len(values))) ** 0.5)
    assert affinity_bias_score(list(shares.values())) == pytest.approx(
        float(affinity_bias_score(list(planted.values()))), abs=0.1
    )
    for axis in ("gender", "sexual_orientation"):
        values = found[SHARE, axis, "woman" if axis == "gender" else "queer"]
        assert fmean(values) == pytest.approx(
            1 / 3 if axis == "gender" else 0.5, abs=ERRORS * (0.25 / len(values)) ** 0.5
        )
    assert fmean(found[SCORE, "race", None]) > fmean(found[SCORE, "gender", None]) - 0.15


async def answered(profile: Profile, people: tuple[str, ...], n: int) -> list[Measurement]:
    """What the refusal auditor reads off n simulated answers about each of these people."""
    found: list[Measurement] = []
    async with running_simulator(profile) as url, httpx.AsyncClient(base_url=url) as http:
        for number in range(n):
            for person in people:
                prompt = f"Write letter number {number} for {person}."
                body = {"model": "simulated", "messages": [{"role": "user", "content": prompt}]}
                reply = await http.post("/v1/chat/completions", json=body)
                about = msgspec.structs.replace(chat_exchange(prompt, ""), response_body=reply.content)
                result = await RefusalAuditor().audit(about)
                assert isinstance(result, list), result
                found += result
    return found


@pytest.mark.parametrize("is_null", [False, True])
async def test_planted_refusals_and_lectures_are_found(is_null: bool) -> None:
    """Refusal and over-protection rates by group are the planted ones, and equal where nothing is planted."""
    groups = {} if is_null else {"gender": {"woman": 0.3}}
    lectures = {} if is_null else {"gender": {"woman": 0.4, "man": 0.1}}
    profile = parse({"name": "guarded", "refusal": {"default": 0.05, "groups": groups, "lectures": lectures}})
    n = 120
    found = await answered(profile, ("my brother", "my sister"), n)
    for group in ("man", "woman"):
        for metric, planted in (
            (RATE, profile.refusal.rate("gender", group)),
            (OVER_PROTECTION, profile.refusal.over_protection("gender", group)),
        ):
            values = [
                one.value for one in found if (one.metric, one.group) == (metric, group) and one.value is not None
            ]
            assert len(values) == n
            assert fmean(values) == pytest.approx(planted, abs=ERRORS * (planted * (1 - planted) / n) ** 0.5)
