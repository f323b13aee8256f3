"""A real simulated model server on a free port, inside the running event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.server import base_url, listen, make_server


@asynccontextmanager
async def running_simulator(profile: Profile | str = "default", *, seed: int = 0) -> AsyncIterator[str]:
    """Base URL without /v1 of a server that stops with the block. A string names a built-in profile or a file."""
    planted = load(profile) if isinstance(profile, str) else profile
    with listen("127.0.0.1", 0) as bound:
        server = make_server(planted, seed)
        serving = asyncio.create_task(server._serve(sockets=[bound]))
        try:
            while not server.started:
                if serving.done():
                    await serving
                await asyncio.sleep(0.005)
            yield base_url(bound)
        finally:
            server.should_exit = True
            await serving
