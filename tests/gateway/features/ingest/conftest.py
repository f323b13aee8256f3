"""A gateway whose doors are open."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.control_plane import ControlPlane, control_plane

OPEN: dict[str, Any] = {"ingest": {"enabled": True}, "sampling": {"rate": 1.0}}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """Entered and left in one task, which a fixture is not."""
    opened: asyncio.Future[ControlPlane] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with control_plane(tmp_path, **OPEN) as running:
            opened.set_result(running)
            await done.wait()

    holding = asyncio.create_task(hold())
    holding.add_done_callback(lambda _: opened.done() or opened.cancel())
    yield await opened
    done.set()
    await holding
