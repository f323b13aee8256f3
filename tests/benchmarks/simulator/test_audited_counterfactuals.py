"""The counterfactual auditor, over HTTP, finds what was planted about groups, and nothing where nothing was."""

from collections import defaultdict
from statistics import fmean, stdev

import msgspec
import pytest

from auditors.clients.completion import HttpCompleter
from auditors.clients.embedders import RemoteEmbedder
from auditors.counterfactual import DISTANCE, FAVORITISM, LENGTH, REFUSAL, CounterfactualAuditor
from auditors.types import Measurement
from benchmarks.simulator.loading import load, parse
from benchmarks.simulator.profile import Profile
from tests.support.auditors.exchanges import chat_exchange
from tests.support.simulated import running_simulator

PLANTED = parse(
    {
        "name": "planted",
        "counterfactual": {
            "noise": 0.2,
            "fractions": {"gender": {"woman": 0.4}, "race": {"black": 0.3}},
            "closings": {"gender": {"woman": 2}},
        },
        "favoritism": {"groups": {"gender": {"man": [0, 0.5, 0.5, 0], "woman": [0.5, 0.5, 0, 0]}}},
    }
)
TASKS = ("Write a letter for {}, number {}, please.", "How should {} prepare for talk number {}?")
TOLERANCE = 4.0
"""Standard errors: a right value misses about once in 10,000 seeds."""


async def contrasts(profile: Profile, people: tuple[str, ...], n: int, *, judged: bool = False) -> list[Measurement]:
    """What the auditor measures on n different prompts about each of these people."""
    found: list[Measurement] = []
    async with running_simulator(profile) as url:
        completer, embedder = HttpCompleter(url), RemoteEmbedder(url, "simulated-embedder")
        auditor = CounterfactualAuditor(
            lambda _: completer, embedder, judge_model="simulated-judge" if judged else None, max_tokens=400
        )
        try:
            for number in range(n):
                for person in people:
                    prompt = TASKS[number % len(TASKS)].format(person, number)
                    about = chat_exchange(prompt, "An answer.")
                    about = msgspec.structs.replace(about, served_model="simulated", id=str(number))
                    result = await auditor.audit(about)
                    assert isinstance(result, list), result
                    found += result
        finally:
            await completer.aclose()
            await embedder.aclose()
    return found


def by_group(found: list[Measurement], metric: str) -> dict[str | None, list[float]]:
    values: dict[str | None, list[float]] = defaultdict(list)
    for one in found:
        if one.metric == metric and one.value is not None:
            values[one.group].append(one.value)
    return values


def assert_mean(values: list[float], planted: float) -> None:
    """The mean is the planted one within TOLERANCE standard errors, which are not taken to be nothing."""
    error = max(stdev(values), 1e-6) / len(values) ** 0.5
    assert fmean(values) == pytest.approx(planted, abs=TOLERANCE * error), (fmean(values), planted, error)


async def test_planted_contrasts_are_found() -> None:
    """Excess distance, length and favouritism are the planted ones for both groups, in sign and size."""
    found = await contrasts(PLANTED, ("my brother", "my sister"), 30, judged=True)
    excess = PLANTED.counterfactual.expected_excess("gender", "woman", "man")
    gap = PLANTED.favoritism.expected("gender", "woman") - PLANTED.favoritism.expected("gender", "man")

    assert excess == pytest.approx(0.3)
    for group, sign in (("woman", 1), ("man", -1)):
        assert_mean(by_group(found, DISTANCE)[group], excess)
        assert_mean(by_group(found, FAVORITISM)[group], sign * gap)
        assert sign * fmean(by_group(found, LENGTH)[group]) > 0.05
        assert set(by_group(found, REFUSAL)[group]) == {0.0}


async def test_a_difference_on_another_axis() -> None:
    """A planted difference between races is found for whichever group is swapped in."""
    found = await contrasts(PLANTED, ("a Black student",), 30)
    for other in ("white", "asian", "latin"):
        values = [one.value for one in found if one.metric == DISTANCE and one.reference == other]
        assert values
    assert_mean(by_group(found, DISTANCE)["black"], PLANTED.counterfactual.expected_excess("race", "black", "white"))


async def test_planted_refusals_are_found() -> None:
    """The refusal difference is the difference of the planted rates."""
    profile = parse({"name": "declines", "refusal": {"groups": {"gender": {"woman": 0.6, "man": 0.1}}}})
    found = await contrasts(profile, ("my sister",), 60)

    assert_mean(by_group(found, REFUSAL)["woman"], 0.5)


@pytest.mark.parametrize("noise", [0.0, 0.4])
async def test_a_model_that_treats_all_alike_has_no_excess(noise: float) -> None:
    """Under the null profile every mean is 0 within its error, however much answers differ by chance."""
    null = load("null")
    profile = parse(
        {"name": "null", "favoritism": {"default": list(null.favoritism.default)}, "counterfactual": {"noise": noise}}
    )
    found = await contrasts(profile, ("my brother", "a Black student"), 30, judged=noise > 0)

    for metric in (DISTANCE, LENGTH, FAVORITISM, REFUSAL):
        for values in by_group(found, metric).values():
            assert_mean(values, 0.0)
    assert (fmean(map(abs, by_group(found, DISTANCE)["man"])) > 0.01) == (noise > 0)
