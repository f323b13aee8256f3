"""When an upstream is left out for its failures, for how long, and how its share returns."""

import pytest

from gateway.config import EjectionConfig
from gateway.proxy.standing import LEAST_SHARE, Standing

CONFIG = EjectionConfig(consecutive_failures=3, base_seconds=1.0, max_seconds=5.0, slow_start_seconds=10.0)


def failing(standing: Standing, times: int, now: float) -> list[float | None]:
    return [standing.failed(now, sent_at=now) for _ in range(times)]


def test_failures_in_a_row() -> None:
    """The third failure in a row is one too many, and not before."""
    standing = Standing(CONFIG)

    assert failing(standing, 3, now=7.0) == [None, None, 1.0]
    assert standing.is_ejected


def test_a_success_ends_the_row() -> None:
    """Failures with successes between them never add up."""
    standing = Standing(CONFIG)
    for _ in range(20):
        failing(standing, 2, now=0.0)
        standing.succeeded()

    assert not standing.is_ejected


def test_more_failures_do_not_lengthen_an_ejection() -> None:
    """What was in flight when the upstream was ejected fails later, and tells nothing new."""
    standing = Standing(CONFIG)
    failing(standing, 3, now=0.0)

    assert failing(standing, 5, now=0.9) == [None] * 5
    assert standing.tick(1.0)
    assert not standing.is_ejected


def test_the_share_returns_slowly() -> None:
    """After the ejection the share starts small, grows with time and ends whole."""
    standing = Standing(CONFIG)
    failing(standing, 3, now=0.0)
    shares = []
    for now in (0.5, 1.0, 3.0, 6.0, 10.9, 11.0, 12.0):
        standing.tick(now)
        shares.append(standing.share)

    assert shares == pytest.approx([1.0, LEAST_SHARE, 0.2, 0.5, 0.99, 1.0, 1.0])


def test_relapses_double_the_ejection() -> None:
    """During the slow return one failure ejects again, for twice as long, up to the longest."""
    standing, now, lengths = Standing(CONFIG), 0.0, []
    failing(standing, 2, now)
    for _ in range(5):
        seconds = standing.failed(now, sent_at=now)
        assert seconds is not None
        lengths.append(seconds)
        now += seconds
        assert standing.tick(now)

    assert lengths == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_return_without_failure_is_forgiven() -> None:
    """Once the slow return is over, the next ejection needs a row of failures and is short again."""
    standing = Standing(CONFIG)
    failing(standing, 3, now=0.0)
    standing.tick(1.0)
    standing.failed(1.5, sent_at=1.5)
    standing.tick(3.5)
    standing.tick(13.5)

    assert failing(standing, 3, now=20.0) == [None, None, 1.0]


def test_requests_from_before_the_return_do_not_count() -> None:
    """A request that was sent before the upstream came back says nothing about how it is now."""
    standing = Standing(CONFIG)
    failing(standing, 3, now=0.0)
    standing.tick(1.0)

    assert standing.failed(2.0, sent_at=0.5) is None
    assert standing.failed(2.0, sent_at=1.5) == 2.0


def test_without_slow_start() -> None:
    """With 0 seconds of slow start the whole share is back at once."""
    standing = Standing(EjectionConfig(slow_start_seconds=0))
    standing.eject(0.0)
    standing.tick(5.0)

    assert (standing.is_ejected, standing.share) == (False, 1.0)
