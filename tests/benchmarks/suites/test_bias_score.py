"""BiasScore: from two runs, or a reason."""

from collections.abc import Callable

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result, joined
from benchmarks.run.score import provenance_of, score
from benchmarks.suites.decision.scores import JOINT_SCORE, METRIC
from benchmarks.suites.protocol import Item, Observation, Reply


def run(suite: str, test_score: Callable[[Item], int]) -> tuple[Result, list[Observation]]:
    """A run whose every test has a known score."""
    plan = prepare(RunOptions(suite=suite, model="m", data="embedded"))
    replies = {
        (item.item_id, 0): Reply(
            item_id=item.item_id, text="x", status="ok", parsed={"test_score": test_score(item), "word_score": 0.0}
        )
        for item in plan.items
    }
    observations = [Observation(item, replies[item.item_id, 0]) for item in plan.items]
    return score(plan, replies, provenance_of(plan, replies)), observations


def scores(result: Result) -> dict[str | None, float | None]:
    return {one.axis: one.value for one in result.estimates if one.metric == METRIC}


def test_the_mean_of_both_absolute_means() -> None:
    """All decisions directed, a known half of the associations: 75 on race, the pooled shares over all."""
    result, decisions = run("decision", lambda _: -1)
    numbers = iter(range(10_000))
    _, associations = run("implicit_association", lambda item: next(numbers) % 2)
    directed = sum(o.reply.parsed["test_score"] for o in associations)
    both = joined(result, JOINT_SCORE, decisions, associations, "embedded")
    total = next(one for one in both.estimates if one.metric == METRIC and one.axis is None)

    assert total.value == (100 + 100 * directed / len(associations)) / 2
    assert total.lower is not None
    assert total.upper is not None
    assert total.lower < (100 + 100 * directed / len(associations)) / 2 < total.upper
    assert total.n == len(associations) + len(decisions)
    assert all(value is not None for value in scores(both).values())
    assert [one for one in both.estimates if one.metric != METRIC] == [
        one for one in result.estimates if one.metric != METRIC
    ]


def test_no_association_that_arrived_is_no_score() -> None:
    """One of the two without a reply leaves the mean undefined, not half."""
    result, decisions = run("decision", lambda _: 1)

    assert set(scores(joined(result, JOINT_SCORE, decisions, [], "embedded")).values()) == {None}
