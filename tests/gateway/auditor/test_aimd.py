"""The rule by which audits give way: never above the cap, few while others wait or are slower, then all, never none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auditor.backpressure.aimd import CALM_POLLS, POLLS_TO_THE_CAP, AimdLimit
from gateway.auditor.backpressure.latency_budget import Verdict
from gateway.auditor.backpressure.vllm_load import Load

IDLE = Load()
loads = st.builds(Load, st.integers(0, 50), st.integers(0, 50), st.floats(0, 1))
events = st.one_of(st.none(), loads, st.sampled_from(["503", "slow"]))


def controller(cap: int, *, max_pause_seconds: float = 10.0) -> AimdLimit:
    """One with this cap, which it has reached."""
    made = AimdLimit(max_kv_usage_ratio=0.9, max_pause_seconds=max_pause_seconds)
    made.widen(cap)
    return made


def polled(one: AimdLimit, second: float, load: Load | None, in_flight: int, **given: Any) -> float:
    """What is allowed after a poll at this time, with so many of ours in flight since the one before."""
    one.update(load, in_flight=in_flight, peak=given.pop("peak", in_flight), now=float(second), **given)
    return one.allowed


@given(st.integers(1, 64), st.lists(st.tuples(events, st.integers(0, 64))))
def test_never_above_the_cap_and_back_to_it(cap: int, story: list[tuple[Load | str | None, int]]) -> None:
    """Whatever happens, 0 to the cap are allowed; an idle server allows all again after so many polls."""
    one = controller(cap)
    for second, (event, in_flight) in enumerate(story):
        if event == "503":
            one.on_overload(in_flight=in_flight, now=float(second))
        elif event == "slow":
            polled(one, second, IDLE, in_flight, latency="over")
        elif not isinstance(event, str):
            polled(one, second, event, in_flight)
        assert 0 <= one.allowed <= cap
    for more in range(CALM_POLLS + POLLS_TO_THE_CAP - 1):
        polled(one, len(story) + more, IDLE, 0, latency="within")
    assert one.allowed == cap


@given(st.integers(1, 64), st.integers(0, 64), st.integers(0, 64))
def test_own_requests_are_nobody_elses(cap: int, running: int, waiting: int) -> None:
    """A server that holds ours alone never gives a reason to hold back, however many of them wait."""
    one = controller(cap)
    assert polled(one, 1, Load(running, waiting), running + waiting) == cap


def test_others_in_the_queue_halve_what_is_in_flight() -> None:
    """Down to none, also when it is ours that run and theirs that wait."""
    one, load = controller(16), Load(running=10, waiting=3)
    assert [polled(one, second, load, in_flight) for second, in_flight in enumerate((10, 5, 2, 1))] == [5, 2, 1, 0]


@pytest.mark.parametrize(("kv_usage", "expected"), [(0.95, [2, 1, 1]), (0.9, [8, 8, 8])])
def test_a_full_cache_leaves_one(kv_usage: float, expected: list[int]) -> None:
    """Above the limit half, down to one; at the limit nothing changes."""
    one, load = controller(8), Load(running=4, kv_usage=kv_usage)
    assert [polled(one, second, load, in_flight, peak=4) for second, in_flight in enumerate((4, 2, 1))] == expected


def test_slow_answers_halve_and_hold() -> None:
    """Down to none; nothing comes back until answers are known to be within the budget, then step by step."""
    one, load = controller(16), Load(running=12)
    story: list[tuple[int, Verdict]] = [
        (10, "over"), (5, "unknown"), (5, "over"), (2, "over"), (1, "over"), (0, "unknown"), (1, "within"),
    ]  # fmt: skip
    seen = [polled(one, second, load, in_flight, latency=found) for second, (in_flight, found) in enumerate(story)]
    assert seen == [5, 5, 2, 1, 0, 0, 0]
    assert [polled(one, second, load, 0) for second in (7, 8)] == [2, 4]


@pytest.mark.parametrize(("affordable", "expected"), [(0.5, 8), (0.25, 4), (0.025, 0)])
def test_answers_that_are_much_too_slow_cut_at_once(affordable: float, expected: int) -> None:
    """As many stay as the budget affords, in one poll and not in one for every half."""
    assert polled(controller(16), 0, Load(running=20), 16, latency="over", affordable=affordable) == expected


def test_a_queue_that_comes_and_goes_is_one() -> None:
    """As vLLM's own gauge has it under steady load: a poll or two without a queue give nothing back."""
    one = controller(16)
    seen = []
    for second, waiting in enumerate((15, 15, 0, 13, 0, 0, 11, 8, 0, 12, 0, 0, 0)):
        load = Load(running=4 if waiting else 0, waiting=waiting)
        seen.append(polled(one, second, load, min(4, int(one.allowed)), peak=4))
    assert seen == [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]


def test_a_burst_of_refusals_counts_once() -> None:
    """Eight answers of 503 in one moment halve once, and the next polls do not take it back."""
    one = controller(8)
    polled(one, 0, None, 8)
    for _ in range(8):
        one.on_overload(in_flight=8, now=0.5)
    assert one.allowed == 4
    assert {polled(one, second, None, 4, peak=8) for second in range(1, CALM_POLLS)} == {4}
    assert polled(one, CALM_POLLS, None, 4) == 5


@given(st.lists(loads, min_size=20, max_size=60), st.floats(1, 5))
def test_nobody_starves(seen: list[Load], pause: float) -> None:
    """With requests that take a second each, the longest time without one is the pause and a poll."""
    one = controller(4, max_pause_seconds=pause)
    in_flight, idle = 0, 0.0
    for second, load in enumerate(seen):
        queued = load._replace(running=load.running + 10, waiting=load.waiting + 1)
        polled(one, second, queued, in_flight)
        idle = 0.0 if in_flight else idle + 1.0
        in_flight = int(one.may_send(in_flight=0, idle_seconds=idle))
        assert idle <= pause + 1.0
