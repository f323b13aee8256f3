"""What pairs come to: every gap's counts, and a verdict that follows from them alone."""

import random

import pytest

from auditors.types import Completion, CompletionRequest, Message
from gateway.features.canary import replay
from gateway.features.canary.comparison import Answers, Comparison, Findings, Pair
from gateway.features.canary.request import FAILURE_RATE, REFUSAL_RATE, CanaryRequest, Gap, Side, score
from tests.support.benchmarks.scripted import Answering

METRIC = "counterfactual_refusal_difference"
AUDITOR = "counterfactual"
ABOUT = Gap(AUDITOR, METRIC, "gender", "woman")
GAPS = [ABOUT, Gap(AUDITOR, REFUSAL_RATE), Gap(AUDITOR, FAILURE_RATE)]
ASKED = CanaryRequest(stable=Side(model="a"), canary=Side(model="b"), max_pairs=1000)


def pair(number: int, stable: float = 0.0, canary: float = 0.0, **given: object) -> Pair:
    """One that was answered by both, without refusals."""
    heard = Answers(n=4, words=40, seconds=4.0)
    fields = {"scores": {METRIC: (stable, canary)}, "stable": heard, "canary": heard} | given
    return Pair(number=number, auditor=AUDITOR, axis="gender", group="woman", **fields)  # type: ignore[arg-type]


def failed(number: int, *sides: str) -> Pair:
    """One that these sides could not be asked about."""
    whys = dict.fromkeys(sides, "timeout")
    return Pair(number=number, auditor=AUDITOR, axis="gender", group="woman", failed=whys)


def findings(pairs: list[Pair], request: CanaryRequest = ASKED) -> Findings:
    comparison = Comparison(request, GAPS)
    for one in pairs:
        comparison.add(one)
    return comparison.findings()


def test_a_pair_that_failed_is_left_out_once_of_every_gap() -> None:
    """Whichever sides failed: one exclusion a gap, with the sides and reasons, and no score."""
    found = findings([failed(0, "canary"), failed(1, "stable", "canary"), pair(2)])
    by_metric = {one.metric: one for one in found.gaps}

    assert found.n_compared == 1
    assert found.failed == {"canary: timeout": 2, "stable: timeout": 1}
    for metric in (METRIC, REFUSAL_RATE):
        assert (by_metric[metric].n, by_metric[metric].n_excluded) == (1, 2)
        assert by_metric[metric].excluded == {"canary: timeout": 1, "stable: timeout, canary: timeout": 1}
    rate = by_metric[FAILURE_RATE]
    assert (rate.n, rate.n_excluded, rate.e_value) == (3, 0, None)
    assert rate.stable == pytest.approx(1 / 3)
    assert rate.canary == pytest.approx(2 / 3)


def test_a_score_that_is_missing_is_no_zero() -> None:
    """A metric without two scores is counted with its reason, and the others go on."""
    found = findings([pair(0, scores={}, excluded={METRIC: "canary: malformed"}), pair(1, 0.5, 0.5)])
    gap = found.gaps[0]

    assert (gap.n, gap.excluded, gap.stable) == (1, {"canary: malformed": 1}, 0.5)


def test_failures_keep_from_promotion_and_roll_nothing_back() -> None:
    """A canary that fails in half of the pairs, and is equal in the others, is held at max_pairs."""
    half = [failed(n, "canary") if n % 2 else pair(n) for n in range(1000)]

    assert findings([pair(n) for n in range(1000)]).verdict == "promote"
    found = findings(half)
    assert found.verdict == "hold"
    assert "failure_rate (upper bound" in found.reasons[0]


def test_a_gap_that_turned_round_is_rolled_back_only_when_it_grew() -> None:
    """-.4 in place of .4 is no worse; -.9 is, and the reason names gap, means and evidence."""
    rng = random.Random(1)
    same = [pair(n, *(1.0 if rng.random() < 0.4 else 0.0, -1.0 if rng.random() < 0.4 else 0.0)) for n in range(400)]
    worse = [pair(n, *(1.0 if rng.random() < 0.4 else 0.0, -1.0 if rng.random() < 0.9 else 0.0)) for n in range(400)]

    assert findings(same).verdict == "undecided"
    found = findings(worse)
    assert found.verdict == "rollback"
    assert found.reasons[0].startswith("counterfactual_refusal_difference of gender/woman: -0.9")


def test_the_order_of_pairs_changes_no_number() -> None:
    """A canary that is taken up again comes to the same as one that was never stopped."""
    rng = random.Random(2)
    pairs = [pair(n, rng.uniform(-1, 1), rng.uniform(-1, 1)) for n in range(60)]
    forward, backward = findings(pairs), findings(pairs[::-1])

    assert forward.e_value == pytest.approx(backward.e_value)
    assert [one.upper for one in forward.gaps] == pytest.approx([one.upper for one in backward.gaps])


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("counterfactual_distance_excess", 2.0, 1.0),
        ("counterfactual_distance_excess", -1.0, -0.5),
        ("counterfactual_favoritism_difference", -3.0, -1.0),
        ("decision_probability_excess", 0.3, 0.3),
    ],
)
def test_scores_keep_their_zero(metric: str, value: float, expected: float) -> None:
    """A score is divided by the most that its metric can be, so no difference stays no difference."""
    assert score(metric, value) == expected
    assert score(metric, 0.0) == 0.0


async def test_a_filters_refusal_is_a_refusal_of_its_side() -> None:
    """A refusal that comes in a field, as a guard filter's does, counts without a word of refusal in the text."""
    heard: list[Answers] = []
    replay._heard.set(heard)
    side = replay._Listening(Answering(lambda _: Completion(text=None, refusal="query_refused: status 400")))
    await side.complete(CompletionRequest(model="m", messages=[Message("user", "Hello")], max_tokens=9))
    assert [answers.refused for answers in heard] == [1]
