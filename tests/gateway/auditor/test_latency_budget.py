"""Whether audits slow live answers down: known slow-downs are found, noise and load are not taken for one."""

import random
from collections.abc import Callable

import pytest

from gateway.auditor.backpressure.latency_budget import PAUSE_AFTER_SECONDS, LatencyBudget, Verdict
from gateway.auditor.backpressure.vllm_load import Load


class Server:
    """A vLLM in rough numbers, a second at a time: every running request gets a token a step."""

    def __init__(self, step_seconds: Callable[[int, int], float], latency: LatencyBudget | None = None) -> None:
        """`step_seconds`: of live requests and audits in the batch."""
        self.latency = latency or LatencyBudget(1.05)
        self.now = 0.0
        self._step_seconds = step_seconds
        self._token_seconds = self._tokens = 0.0

    def second(self, live: int, audits: int, *, allowed: float = 16, waiting: int = 0) -> Verdict:
        """One second with so many in the batch, and a poll at its end."""
        self.now += 1
        running = live + audits
        step = self._step_seconds(live, audits)
        self._tokens += running / step
        self._token_seconds += running
        load = Load(running, waiting, token_seconds=self._token_seconds, tokens=self._tokens)
        return self.latency.update(load, in_flight=audits, peak=audits, allowed=allowed, now=self.now)

    def seconds(self, count: int, live: int, audits: int, *, allowed: float = 16) -> list[Verdict]:
        return [self.second(live, audits, allowed=allowed) for _ in range(count)]


def noisy(step: Callable[[int, int], float], spread: float, seed: int = 1) -> Callable[[int, int], float]:
    """The same, with a spread from one second to the next."""
    rng = random.Random(seed)
    return lambda live, audits: step(live, audits) * rng.uniform(1 - spread, 1 + spread)


@pytest.mark.parametrize(("slower", "expected"), [(1.0, "within"), (1.04, "within"), (1.3, "over")])
def test_a_known_ratio_is_found(slower: float, expected: Verdict) -> None:
    """With a baseline and as many seconds with audits, the ratio is that of the steps."""
    server = Server(lambda _, audits: 0.02 * (slower if audits else 1))
    assert set(server.seconds(8, 4, 0)) == {"unknown"}
    assert server.seconds(8, 4, 6)[-1] == expected
    assert server.latency.ratio == pytest.approx(slower)


@pytest.mark.parametrize(("slower", "share"), [(1.04, 0.5), (1.06, 0.5), (1.2, 0.25), (3.0, 0.025)])
def test_what_fits_into_the_budget_is_known(slower: float, share: float) -> None:
    """A tenth of the excess fits where answers are slower by ten times the budget; never more than a half."""
    server = Server(lambda _, audits: 0.02 * (slower if audits else 1))
    assert server.latency.affordable_share == 0.5
    server.seconds(8, 4, 0)
    server.seconds(8, 4, 6)
    assert server.latency.affordable_share == pytest.approx(share)


def test_more_live_requests_are_no_audits_fault() -> None:
    """Audits come with traffic: at every number of live requests there is a baseline of its own."""
    server = Server(lambda live, _: 0.01 * live)
    server.seconds(8, 2, 0)
    assert set(server.seconds(20, 8, 6)) == {"unknown"}  # never seen without
    server.seconds(8, 8, 0)
    assert set(server.seconds(10, 8, 6)[6:]) == {"within"}
    assert server.latency.ratio == pytest.approx(1)


@pytest.mark.parametrize("seed", range(2))
def test_noise_is_no_reason(seed: int) -> None:
    """Steps that vary by a fifth from second to second, without any effect: cut in few of a thousand polls."""
    server = Server(noisy(lambda *_: 0.02, 0.2, seed))
    seen = [verdict for _ in range(25) for verdict in (*server.seconds(20, 4, 0), *server.seconds(20, 4, 3))]
    assert seen.count("over") < 20
    server = Server(noisy(lambda _, audits: 0.02 * (1.5 if audits else 1), 0.2, seed))
    seen = [verdict for _ in range(25) for verdict in (*server.seconds(20, 4, 0), *server.seconds(20, 4, 3))]
    assert seen.count("over") > 400


def test_what_is_left_over_from_before_is_no_evidence() -> None:
    """After a cut, seconds in which more were in flight than are allowed now tell nothing of the new limiter."""
    server = Server(lambda _, audits: 0.02 * (1.5 if audits > 2 else 1))
    server.seconds(8, 4, 0)
    assert server.seconds(8, 4, 8)[-1] == "over"
    server.latency.start_again()
    assert set(server.seconds(8, 4, 4, allowed=2)) == {"unknown"}
    assert server.seconds(8, 4, 2, allowed=2)[-1] == "within"


def test_audits_that_never_stop_are_paused() -> None:
    """A pause comes once nothing is known for a while, ends with a baseline, and is not repeated soon."""
    server = Server(lambda _, audits: 0.02 * (1.2 if audits else 1))
    pauses, seen = [], []
    for second in range(600):
        pausing = server.latency.is_pausing
        seen.append(server.second(4, 0 if pausing else 4))
        if pausing:
            pauses.append(second)
    assert pauses[0] == pytest.approx(PAUSE_AFTER_SECONDS, abs=2)
    assert 6 <= sum(second < 300 for second in pauses) <= 8
    assert len(pauses) <= 24
    assert seen[60] == "over"
