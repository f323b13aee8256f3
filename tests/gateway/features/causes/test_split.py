"""The parts of a shift: exact sums, the strata of conditions, conversations, coverage of planted causes, words."""

import numpy as np
import pytest

from gateway.features.causes.shown import shown_cause
from gateway.features.causes.split import Side, Split, judged, quiet_before, split
from gateway.features.causes.store import PartName, Row, Scores, Work
from tests.support.long import least_covered, repeated
from tools.causes.planted import Gap, World, played, truth

NAN = float("nan")


def side(columns: list[list[float]], conditions: str, conversations: str = "") -> Side:
    """Return a side of equal weights whose conversations are all different unless they are named."""
    n = len(conditions)
    return Side(list(conversations or map(str, range(n))), list(conditions), np.ones(n), np.array(columns).T)


def values(result: Split) -> dict[str, float]:
    return {part.name: part.value for part in result.parts}


def test_conditions_that_changed_are_a_part_of_their_own() -> None:
    """Prompts crossed with conditions give the mean over both orders, and all parts add up to the shift exactly."""
    before = side([[0.1] * 6, [0.2] * 6, [0.3] * 6, [0.5] * 6], "aaaaaa")
    parts = values(split(before, side([[0.9] * 6, [0.6] * 6], "bbbbbb")))
    assert parts == pytest.approx({"judge": 0.1, "model": 0.1, "traffic": 0.35, "application": 0.25})
    assert sum(parts.values()) == pytest.approx(0.8)


def test_another_mix_of_conditions_is_the_application_s_part() -> None:
    """The means under each condition are the same on both sides, and only their shares moved: 1/3 of the way to 1."""
    scores = [0.0] * 10 + [1.0] * 5
    before = side([scores, scores, scores, [NAN] * 15], "a" * 10 + "b" * 5)
    since = side([[0.0] * 5 + [1.0] * 10, [NAN] * 15], "a" * 5 + "b" * 10)
    assert values(split(before, since)) == pytest.approx(
        {"judge": 0.0, "model": 0.0, "traffic": 0.0, "application": 1 / 3}
    )


def test_turns_of_a_conversation_do_not_narrow_an_interval() -> None:
    """Four copies of an exchange in its conversation say as much as one; apart they say more."""
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (4, 40)).astype(float)
    widths = []
    for times, is_own in ((1, True), (4, False), (4, True)):
        names = [str(k if is_own else k // times) for k in range(40 * times)]
        sides = [
            Side(
                [f"{which}{name}" for name in names], ["a"] * 40 * times, np.ones(40 * times), np.repeat(part, times, 0)
            )
            for which, part in (("b", rows.T), ("s", rows.T[:, :2]))
        ]
        model = split(sides[0], sides[1]).parts[1]
        widths.append(model.upper - model.lower)
    assert widths[1] == pytest.approx(widths[0])
    assert widths[2] < 0.6 * widths[0]


def test_a_gap_s_part_is_the_group_s_less_the_others() -> None:
    """What both sides share in a conversation leaves their difference's interval; a mean's is as it was before gaps."""
    noise = np.random.default_rng(1).random((12, 60))
    before, since = side([*noise[:4]], "a" * 60), side([*noise[4:6]], "a" * 60)
    group, rest = split(before, since), split(side([*noise[6:10]], "a" * 60), side([*noise[10:]], "a" * 60))
    old = (-0.11154857915295613, 0.0726678943335349, 0.12843376160893485, -0.20696773626192813)
    judge, model, traffic, _ = group.parts
    assert (group.shift, judge.upper, model.upper, traffic.lower) == pytest.approx(old, rel=1e-12)
    gap = split(before._replace(rest=noise[6:10].T), since._replace(rest=noise[10:].T))
    assert values(gap) == pytest.approx({name: part - values(rest)[name] for name, part in values(group).items()})
    alike = split(before._replace(rest=before.scores + 0.1), since._replace(rest=since.scores))
    assert values(alike) == pytest.approx({"judge": 0.0, "model": 0.0, "traffic": 0.1, "application": 0.0})
    assert max(part.upper - part.lower for part in alike.parts) < 1e-3


def test_before_ends_ahead_of_a_small_change_that_the_detector_dates_late() -> None:
    """The detector's change after 900 audits is too late: the mean moved after 500."""
    random = np.random.default_rng(3)
    scores = np.concatenate([random.normal(0.3, 0.1, 500), random.normal(0.4, 0.1, 500)])
    assert 400 < quiet_before(scores, np.ones(1000), 900) <= 480


@repeated(200, quick=25)
@pytest.mark.parametrize(
    ("world", "largest"),
    [(World(0.0, 0.7), "model"), (World(0.7, application=0.3), "judge"), (World(traffic=0.7, gap=Gap()), "traffic")],
    ids=str,
)
def test_parts_cover_what_was_planted(world: World, largest: PartName, times: int) -> None:
    """With the real detector in the loop, intervals hold each planted part, and the largest part is named."""
    planted = truth(world)
    told = [result for seed in range(times) if (result := played(seed, world)) is not None]
    assert len(told) >= 0.95 * times
    for number, (name, value) in enumerate(planted.items()):
        parts = [result.parts[number] for result in told]
        inside = sum(part.lower - 1e-9 <= value <= part.upper + 1e-9 for part in parts)
        assert inside >= least_covered(len(told)), name
    named = [max(result.parts, key=lambda part: abs(part.value)).name for result in told]
    assert named.count(largest) >= 0.9 * len(told)


def rows(n: int, then: float, again: float | None = None, anew: float | None = None) -> list[Row]:
    """Return rows of different conversations with these scores."""
    return [
        Row(id=f"{then}/{k}", weight=1.0, fingerprint="f", is_answered=True, then=then, again=again, anew=anew)
        for k in range(n)
    ]


def test_a_cause_is_a_sentence_once_there_is_enough() -> None:
    """Too few of since are pending with their number; then the largest part comes first, in the metric's unit."""
    work = Work(alarm_since=0.0, metric="favoritism", before=rows(40, then=0.25, again=0.25, anew=0.75))
    work.since = rows(10, then=0.75)
    few = shown_cause(judged(work))
    assert (few.status, few.parts) == ("pending", [])
    assert few.sentence.startswith("What caused it cannot be told yet: 10 of the 30 exchanges")
    work.since = rows(40, then=0.75)
    told = shown_cause(judged(work))
    assert told.status == "told"
    assert told.sentence.startswith("Of the rise of 1.50, the model makes 1.50 (1.4")
    assert "the application 0.00" in told.sentence
    work.metric, work.group = "favoritism_gap", "trans_woman"
    assert shown_cause(judged(work)).reason == "only 0 of the 30 exchanges that are needed of before were asked again"
    for row in (*work.before, *work.since):
        row.rest = Scores(then=0.25, again=0.25, anew=0.5)
    gap = shown_cause(judged(work))
    assert gap.sentence.startswith("Of the rise of 1.50 of the gap between trans woman and the others, the model makes")
    work = Work(alarm_since=0.0, metric="favoritism", before=rows(20, then=0.5, again=0.5, anew=0.5))
    gone = shown_cause(judged(work))
    assert (gone.status, gone.shift) == ("cannot_be_told", None)
