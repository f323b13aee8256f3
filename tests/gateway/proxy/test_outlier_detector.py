"""When an upstream is left out for its failures, for how long, and how its share returns."""

import pytest

from gateway.config.schema import EjectionConfig
from gateway.proxy.outlier_detector import MIN_WEIGHT_SHARE, OutlierDetector

CONFIG = EjectionConfig(consecutive_failures=3, base_seconds=1.0, max_seconds=5.0, slow_start_seconds=10.0)


def failing(outliers: OutlierDetector, times: int, now: float) -> list[float | None]:
    return [outliers.failed(now, sent_at=now) for _ in range(times)]


def test_a_success_ends_the_row() -> None:
    """Failures with successes between them never add up."""
    outliers = OutlierDetector(CONFIG)
    for _ in range(20):
        failing(outliers, 2, now=0.0)
        outliers.succeeded()

    assert not outliers.is_ejected


def test_more_failures_do_not_lengthen_an_ejection() -> None:
    """What was in flight when the upstream was ejected fails later, and tells nothing new."""
    outliers = OutlierDetector(CONFIG)
    failing(outliers, 3, now=0.0)

    assert failing(outliers, 5, now=0.9) == [None] * 5
    assert outliers.tick(1.0)
    assert not outliers.is_ejected


def test_the_share_returns_slowly() -> None:
    """After the ejection the share starts small, grows with time and ends whole."""
    outliers = OutlierDetector(CONFIG)
    failing(outliers, 3, now=0.0)
    shares = []
    for now in (0.5, 1.0, 3.0, 6.0, 10.9, 11.0, 12.0):
        outliers.tick(now)
        shares.append(outliers.share)

    assert shares == pytest.approx([1.0, MIN_WEIGHT_SHARE, 0.2, 0.5, 0.99, 1.0, 1.0])


def test_relapses_double_the_ejection() -> None:
    """During the slow start one failure ejects again, for twice as long, up to the longest."""
    outliers, now, lengths = OutlierDetector(CONFIG), 0.0, []
    failing(outliers, 2, now)
    for _ in range(5):
        seconds = outliers.failed(now, sent_at=now)
        assert seconds is not None
        lengths.append(seconds)
        now += seconds
        assert outliers.tick(now)

    assert lengths == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_return_without_failure_is_forgiven() -> None:
    """Once the slow start is over, the next ejection needs a row of failures and is short again."""
    outliers = OutlierDetector(CONFIG)
    failing(outliers, 3, now=0.0)
    outliers.tick(1.0)
    outliers.failed(1.5, sent_at=1.5)
    outliers.tick(3.5)
    outliers.tick(13.5)

    assert failing(outliers, 3, now=20.0) == [None, None, 1.0]


def test_requests_from_before_the_return_do_not_count() -> None:
    """A request that was sent before the upstream came back says nothing about how it is now."""
    outliers = OutlierDetector(CONFIG)
    failing(outliers, 3, now=0.0)
    outliers.tick(1.0)

    assert outliers.failed(2.0, sent_at=0.5) is None
    assert outliers.failed(2.0, sent_at=1.5) == 2.0
