"""The slow oracle on a real socket, in the place of the fast relay."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from gateway.config.schema import Config
from gateway.proxy.data_plane import DataPlane
from tests.support.integration.oracle import OracleRelay, beside
from tests.support.integration.relaying import Gateway, RememberingStats, RememberingTap, outside_app


@asynccontextmanager
async def running_oracle(config: Config, *, tap: RememberingTap | None = None) -> AsyncIterator[Gateway]:
    """uvicorn's own HTTP protocol with the oracle as its application, in this event loop."""
    tap, stats = tap or RememberingTap(), RememberingStats()
    plane = DataPlane(config, tap=tap, stats=stats)
    await plane.start()
    oracle = OracleRelay(plane)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            beside(outside_app, oracle),
            http="httptools",
            lifespan="off",
            log_config=None,
            ws="none",
            access_log=False,
            server_header=False,
            date_header=False,
        )
    )
    serving = asyncio.create_task(server._serve([listener]))
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.001)
        yield Gateway(listener.getsockname()[1], plane, tap, stats, server)
    finally:
        server.should_exit = True
        await serving
        await plane.stop(0.0)
        await oracle.aclose()
