"""A judge's reference set: what differs, what is undefined, and when the alarm sounds."""

from statistics import median

import pytest

from auditors.judge_reference import (
    METRICS,
    ReferenceItem,
    ReferenceSetError,
    Scored,
    decoded,
    measurements,
    references,
    require_judge,
)
from tests.support.auditors.moving_judge import STAMP, item, judgements_until_alarm, re_judged, reference_set
from tests.support.long import repeated
from tests.support.tables import ROW
from tools.simulations.coverage import Record


def values(recorded: Scored, found: Scored | None) -> list[float | None]:
    one = ReferenceItem(prompt="p", reply="r", recorded=recorded)
    return [each.value for each in measurements(one, found, STAMP, "no verdict")]


def said(refused: bool = False, **scores: int) -> Scored:
    return Scored(refused=refused, scores={f"gender/{group}": score for group, score in scores.items()})


@pytest.mark.parametrize(
    ("recorded", "found", "expected"),
    [
        (said(man=1), said(man=1), [0.0, 0.0, 0.0]),
        (said(), said(), [0.0, 0.0, 0.0]),
        (said(man=1), said(man=2, woman=-1), [0.0, 1.0, 0.0]),
        (said(), said(man=2), [2.0, 1.0, 0.0]),
        (said(man=2), said(), [-2.0, 1.0, 0.0]),
        (said(man=2), said(refused=True), [None, 1.0, 0.0]),
        (said(man=1), None, [None, None, 1.0]),
    ],
)
def test_what_differs(recorded: Scored, found: Scored | None, expected: list[float | None]) -> None:
    """Shift is the mean over the groups of either; a refusal is a disagreement; an unread verdict is no score."""
    assert values(recorded, found) == expected


def test_a_judge_that_repeats_itself_has_references() -> None:
    """No difference in any repeat: an interval that begins at 0, with room for what 180 judgements cannot show."""
    made, _ = re_judged(1, flips=0.0, lenient=0.0)
    found = references(made)

    assert set(found) == set(METRICS)
    assert found["judge_disagreement"].lower == 0.0
    assert 0.0 < found["judge_disagreement"].upper < 0.1


def test_a_judge_that_stays_as_it_is_raises_no_alarm() -> None:
    """Neither one that always repeats itself nor one that flips steadily, all of it in a fifth of the replies."""
    for flips in (0.0, 0.04):
        assert judgements_until_alarm(1, average_run_length=100_000, most=1_500, flips=flips) is None


@pytest.mark.statistical
@repeated(60)
def test_false_alarms_are_as_rare_as_promised(times: int, record_property: Record) -> None:
    """A judge that flips in 4 % of its verdicts: the mean number of re-judgements to a false alarm is A or more."""
    promised, most = 200, 1_600
    found = [
        judgements_until_alarm(seed, average_run_length=promised, most=most, flips=0.04) or most
        for seed in range(times)
    ]
    record_property(ROW, f"judge drift  false alarms at A = {promised}: mean {sum(found) / times:.0f} re-judgements")

    assert sum(found) / times >= promised


@pytest.mark.statistical
@repeated(60)
@pytest.mark.parametrize(("flips", "lenient", "within"), [(0.0, 0.2, 900), (0.0, 0.4, 200), (0.04, 0.4, 400)])
def test_leniency_is_found(times: int, flips: float, lenient: float, within: int, record_property: Record) -> None:
    """A judge that scores a share of the replies a step higher, at A = 100,000; half of the draws within so many."""
    most = 3 * within
    found = [
        judgements_until_alarm(seed, average_run_length=100_000, most=most, flips=flips, lenient=lenient) or most
        for seed in range(times)
    ]
    record_property(
        ROW, f"judge drift  flips {flips:.0%} lenient {lenient:.0%}: median {median(found):.0f}, {max(found)} at most"
    )

    assert median(found) <= within


def written(**changes: object) -> bytes:
    return reference_set("j", **changes)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", written(items=(item(1),) * 9), written(references={})])
def test_what_is_no_set(content: bytes) -> None:
    """One line."""
    with pytest.raises(ReferenceSetError, match="reference"):
        decoded(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge_model": "k"}, "model k, the auditor's has j"),
        ({"prompt_sha256": "a" * 64}, "question aaa"),
        ({"thinking": "on"}, "thinking on, the auditor's has off"),
    ],
)
def test_a_set_of_another_judge(changes: dict[str, object], message: str) -> None:
    """Model, question and thinking are those of the live judge, or the set says nothing about it."""
    require_judge(decoded(written())[0], "j", "off")
    with pytest.raises(ReferenceSetError, match=message):
        require_judge(decoded(written(**changes))[0], "j", "off")
