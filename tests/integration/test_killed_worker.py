"""kill -9 of a worker under load takes no more than a quarter of a second of answers out of the ledger."""

from pathlib import Path

import pytest

from tests.support.integration.killed_worker import kill_under_load

LOST_SECONDS = 0.25


@pytest.mark.parametrize(
    ("workers", "sampling_rate", "is_store_locked"),
    [(2, 0.1, True), (2, 1.0, False), (1, 0.1, False)],
    ids=["store locked", "every request copied", "a lone worker"],
)
async def test_the_ledger_knows_what_a_killed_worker_answered(
    tmp_path: Path, workers: int, sampling_rate: float, is_store_locked: bool
) -> None:
    """Whatever the store does meanwhile: the survivors enter what the dead one had counted, and nothing twice."""
    killed = await kill_under_load(
        tmp_path, workers=workers, sampling_rate=sampling_rate, is_store_locked=is_store_locked, seconds=2.0
    )
    assert killed.answered_by_victim > 100
    assert killed.lost_seconds <= LOST_SECONDS, killed
    assert killed.in_ledger <= killed.answered + 8, killed
