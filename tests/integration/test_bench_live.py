"""The parts of `make bench-live` that need no vLLM: what its traffic sees of a model server, and its ratios."""

import dataclasses

import numpy as np
import pytest

from tests.support.integration.collector import ReceivedSpan
from tests.support.simulated import running_simulator
from tools.bench.live import figures
from tools.bench.live.parts import by_trace, parts
from tools.bench.live.traffic import drive


async def test_traffic_times_every_streamed_answer() -> None:
    """About fifteen requests in half a second are all answered, the first text of each before its end."""
    async with running_simulator() as url:
        seen = await drive(url, "simulated", 30.0, 0.5, 16, seed=3)

    assert 5 < len(seen.total) < 40
    assert seen.failures == 0
    assert all(0 < first <= total for first, total in zip(seen.first, seen.total, strict=True))
    assert len(set(seen.traces)) == len(seen.total) == len(seen.due)


def test_time_to_the_first_text_is_split_by_what_vllm_exports() -> None:
    """Four of a request's five parts come from its span, the fifth is the rest; spans of no request are left out."""
    span = ReceivedSpan(
        name="llm_request",
        trace_id="a" * 32,
        span_id="b" * 16,
        parent_id="c" * 16,
        kind=2,
        status=0,
        start=1_700_000_000_020_000_000,
        end=1_700_000_001_000_000_000,
        attributes={
            "gen_ai.latency.time_to_first_token": 0.25,
            "gen_ai.latency.time_in_queue": 0.1,
            "gen_ai.latency.time_in_model_prefill": 0.03,
        },
        resource={},
    )
    loading = dataclasses.replace(span, trace_id="d" * 32, attributes={})

    found = parts(span, due=1_700_000_000.0, first=0.28)

    assert [found.before, found.handover, found.queue, found.prefill, found.after] == pytest.approx(
        [0.02, 0.12, 0.1, 0.03, 0.01], abs=1e-6
    )
    assert found.whole == pytest.approx(0.28)
    assert by_trace([span, loading]) == {"a" * 32: span}


async def test_traffic_counts_what_is_not_answered() -> None:
    """A model that the server does not know is a failure of each request, not a fast answer."""
    async with running_simulator() as url:
        seen = await drive(url, "unknown-model", 30.0, 0.3, 16, seed=3)

    assert seen.total == []
    assert seen.failures > 0


def test_ratio_of_arms_that_differ_by_a_tenth() -> None:
    """The interval holds the true ratio of the 99th percentiles, 1.1, and not 1.2; the value is the plain ratio."""
    rng = np.random.default_rng(1)
    base = [rng.gamma(9.0, 0.01, size=4000) for _ in range(6)]
    arm = [1.1 * rng.gamma(9.0, 0.01, size=4000) for _ in range(6)]
    found = figures.ratio(arm, base, 99, np.random.default_rng(2))

    assert found.value == figures.percentile(arm, 99) / figures.percentile(base, 99)
    assert 1.0 < found.lower < 1.1 < found.upper < 1.2


def test_rounds_that_one_arm_lacks_are_refused() -> None:
    """Rounds are compared with themselves, and a round without an answer is no round."""
    one = np.array([0.1, 0.2])
    with pytest.raises(ValueError, match="1 and 2 rounds"):
        figures.ratio([one], [one, one], 99, np.random.default_rng(1))
    with pytest.raises(ValueError, match="with answers in each"):
        figures.ratio([one, np.array([])], [one, one], 99, np.random.default_rng(1))
