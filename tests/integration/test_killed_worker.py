"""kill -9 under load takes no answer out of the ledger: of a worker, or of all the gateway's processes at once."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.integration.killed_worker import kill_under_load

pytestmark = pytest.mark.long

MOST_LOST = 2
"""Whose last byte was out, and whose count was not made yet."""
CONNECTIONS = 8


@pytest.mark.parametrize(
    ("workers", "sampling_rate", "is_store_locked"),
    [(2, 0.1, True), (1, 1.0, False)],
    ids=["store locked", "a lone worker, every request copied"],
)
async def test_the_ledger_knows_what_a_killed_worker_answered(
    tmp_path: Path, workers: int, sampling_rate: float, is_store_locked: bool
) -> None:
    """Whatever the store does meanwhile: the survivors enter what the dead one had counted, and nothing twice."""
    killed = await kill_under_load(
        tmp_path, workers=workers, sampling_rate=sampling_rate, is_store_locked=is_store_locked, seconds=2.0
    )
    assert killed.answered_by_victim > 100
    assert killed.lost_requests <= MOST_LOST, killed
    assert killed.in_ledger <= killed.answered + CONNECTIONS, killed


async def test_the_ledger_knows_what_a_killed_gateway_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody survives: the gateway that is started next enters it, once, and leaves nothing behind."""
    with tempfile.TemporaryDirectory() as places:  # where sockets may be: its path is short
        monkeypatch.setenv("TMPDIR", places)
        killed = await kill_under_load(
            tmp_path, workers=2, sampling_rate=0.5, is_store_locked=True, seconds=2.0, kills_all=True
        )
        assert not [name for name in os.listdir(places) if name.startswith("biasgate-writer-")]  # noqa: PTH208 - asynchronous
    assert killed.answered > 100
    assert killed.lost_requests <= MOST_LOST, killed
    assert killed.in_ledger <= killed.answered + CONNECTIONS, killed
