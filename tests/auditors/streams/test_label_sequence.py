"""Labels that are asked where they tell most, and bounds that hold after each of them, in planted worlds."""

import math
import random
from collections import Counter

import pytest

from auditors.labelling.drawing import Candidate, draw_candidates
from auditors.metrics.intervals import Interval
from auditors.streams.calibration import Pair
from auditors.streams.label_sequence import Draw, LabelSequence
from tests.support.long import least_covered, repeated
from tools.labels import ARMS, WORLDS, audit, follow


def test_a_label_of_each_exchange_gives_the_mean_of_the_frame() -> None:
    """With all of a frame labelled, the last value of Z is the frame's mean, whatever the probabilities were."""
    rng = random.Random(1)
    scores = [(rng.random(), rng.random(), rng.uniform(0.5, 2.0)) for _ in range(40)]
    candidates = [Candidate("a", judge, weight, is_neutral=judge < 0.5) for judge, _, weight in scores]
    mean = math.fsum(judge * weight for judge, _, weight in scores) / math.fsum(weight for *_, weight in scores)
    truth = math.fsum(person * weight for _, person, weight in scores) / math.fsum(weight for *_, weight in scores)
    sequence, before = LabelSequence(mean, Interval(mean, mean), 0.1), 0.0
    for t, (number, draw, _) in enumerate(draw_candidates(candidates, 40, rng, "f", "most_telling"), start=1):
        sequence.add(scores[number][0], scores[number][1], draw)
        last, before = t * sequence.value() - before, t * sequence.value()

    assert last == pytest.approx(truth)
    assert not sequence.excludes(truth)


def test_the_stated_probabilities_are_those_of_the_draw() -> None:
    """Over 20,000 draws of one of three exchanges, each comes up as often as its probability says."""
    candidates = [Candidate("a", 1 / 3, 1.0), Candidate("a", 1 / 3, 2.0), Candidate("a", 1.0, 1.0, is_neutral=False)]
    counts, stated, rng = Counter[int](), dict[int, float](), random.Random(2)
    for _ in range(20_000):
        [(number, draw, _)] = draw_candidates(candidates, 1, rng, "f", "most_telling")
        counts[number] += 1
        stated[number] = draw.probability

    assert math.fsum(stated.values()) == pytest.approx(1.0)
    for number, probability in stated.items():
        assert counts[number] / 20_000 == pytest.approx(probability, abs=4 * math.sqrt(0.25 / 20_000))


def test_labels_are_asked_where_the_judge_erred() -> None:
    """Earlier labels found the judge wrong at 1 and right at 2: scores of 1 come up more often; a third stays even."""
    candidates = [Candidate("a", score, 1.0, is_neutral=False) for score in (2 / 3, 1.0) for _ in range(500)]
    labelled = {"a": [Pair(judge=2 / 3, person=1 / 3)] * 30 + [Pair(judge=1.0, person=1.0)] * 30}
    drawn = draw_candidates(candidates, 200, random.Random(3), "f", "most_telling", labelled)
    evenly = draw_candidates(candidates, 200, random.Random(3), "f", "evenly", labelled)

    assert sum(number < 500 for number, *_ in drawn) > 1.2 * sum(number < 500 for number, *_ in evenly)
    assert max(draw.largest for _, draw, _ in drawn) <= 3.0
    assert {round(draw.largest, 9) for _, draw, _ in evenly} == {1.0}
    assert len({number for number, *_ in drawn}) == 200


def test_agreement_narrows_and_an_error_widens() -> None:
    """While judge and people agree, each label narrows the interval; a single error widens it."""
    draw = Draw(frame=None, share=0.01, probability=0.01, largest=1.0, largest_judge=0.5, largest_rest=0.5)
    sequence, widths = LabelSequence(0.5, Interval(0.5, 0.5), 0.0), []
    for person in [0.5] * 60 + [1.0]:
        sequence.add(0.5, person, draw)
        ends = sequence.interval()
        widths.append(ends.upper - ends.lower)

    assert widths[0] == 1.0
    assert widths[59] < widths[30] < widths[10]
    assert widths[60] > widths[59]


@pytest.mark.statistical
@repeated(300, quick=3)
def test_bounds_hold_after_each_label(times: int) -> None:
    """In each planted world, 95 % of the sequences or more never exclude the truth; the judge narrows them."""
    for tables in WORLDS.values():
        held = dict.fromkeys(ARMS, 0)
        for seed in range(times):
            rng = random.Random(seed)
            streams = [audit(table, 2000, rng) for table in tables]
            for arm in ARMS:
                held[arm] += sum(not outcome.has_missed for outcome in follow(arm, streams, 60, rng))
        assert min(held.values()) >= least_covered(times * len(tables))
