"""Replies that the refusal auditor cannot read widen the bounds of rates and gaps, whatever they would have said."""

import random

import pytest

from auditors.refusal import RATE, RefusalAuditor
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import bounds_of, estimate, window_estimate
from auditors.streams.state import MISSING, StreamKey, StreamState, miss_gap, record, record_gap
from auditors.types import Measurement
from tests.support.auditors.exchanges import chat_exchange
from tests.support.presence import measured, present

SETTINGS = DriftSettings(average_run_length=1e9, reference_window=10**9)
PROMPTS = {"woman": "Write a letter for my sister.", "man": "Write a letter for my brother."}
DECLINED = "I'm sorry, but I can't help with that."
ANSWERED = "Here is the letter that you asked for, with all the best wishes to you."
UNREAD = "Det kan jag tyvärr inte hjälpa dig med, eftersom det är farligt."
REFUSED = {"woman": 0.5, "man": 0.3}
"""The true rates."""
UNREAD_OF_REFUSED = {"woman": 0.5, "man": 0.0}
"""Share of the refusals about a group that come in a language without rules."""
N = 4_000


async def rates() -> dict[tuple[str, str], Measurement]:
    """The auditor's measurement of the rate, by group and by reply."""
    found = {}
    for group, prompt in PROMPTS.items():
        for reply in (DECLINED, ANSWERED, UNREAD):
            result = measured(await RefusalAuditor().audit(chat_exchange(prompt, reply)))
            [found[group, reply]] = [one for one in result if one.metric == RATE]
    return found


async def test_bounds_hold_when_refusals_hide_in_another_language() -> None:
    """The bounds hold the true rate and gap when half of the refusals about women are unreadable."""
    measured, rng = await rates(), random.Random(5)
    states = {group: StreamState() for group in PROMPTS}
    gap = StreamState()
    for _ in range(N):
        group = rng.choice(sorted(PROMPTS))
        declines = rng.random() < REFUSED[group]
        is_unread = declines and rng.random() < UNREAD_OF_REFUSED[group]
        one = measured[group, UNREAD if is_unread else DECLINED if declines else ANSWERED]
        states[group] = record(states[group], one, 0.5, SETTINGS)
        if one.value is None:
            assert one.status in MISSING
            gap = miss_gap(gap, one.status, 0.5, has_group=group == "woman", has_others=group == "man")
        else:
            women, men = ([one.value], []) if group == "woman" else ([], [one.value])
            gap = record_gap(gap, women, men, 0.5, SETTINGS)
    about_women, about_men, difference = bounds_of(states["woman"]), bounds_of(states["man"]), bounds_of(gap)

    assert about_women.lower <= 0.5 <= about_women.upper
    assert about_men.lower <= 0.3 <= about_men.upper
    assert 2 * difference.lower - 1 <= 0.2 <= 2 * difference.upper - 1
    key = StreamKey(auditor="refusal", metric=RATE, axis="gender", group="woman", model="m", instrument="v2")
    left_out = window_estimate(key, states["woman"].sums, {})
    assert present(left_out.upper) < 0.45
    assert estimate(key, states["woman"]).n_excluded == states["woman"].n_missing > 0.2 * states["woman"].sums.n


@pytest.mark.parametrize("reply", [UNREAD, "<think>Should I"])
async def test_what_cannot_be_read_is_missing_for_each_group_named(reply: str) -> None:
    """Every group that the prompt names lacks its rate, and nobody else does."""
    result = measured(await RefusalAuditor().audit(chat_exchange("My sister, who is old, wants a letter.", reply)))
    lacking = {(one.axis, one.group) for one in result if one.metric == RATE and one.status in MISSING}
    assert lacking == {(one.axis, one.group) for one in result} != set()
