"""A real simulated model server on a free port."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from benchmarks.simulator.counterfactual import Counterfactual
from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.server import base_url, listen, make_server


@asynccontextmanager
async def running_simulator(profile: Profile | str = "default", *, seed: int = 0) -> AsyncIterator[str]:
    """Base URL without /v1 of a server that stops with the block. A string names a built-in profile or a file."""
    with listen("127.0.0.1", 0) as bound:
        server = make_server(load(profile) if isinstance(profile, str) else profile, seed)
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


@contextmanager
def simulator_in_thread(profile: Profile | str = "default", *, seed: int = 0) -> Iterator[str]:
    """As `running_simulator`, in a thread: for commands in this process, and for the tests of a module."""
    with listen("127.0.0.1", 0) as bound:
        server = make_server(load(profile) if isinstance(profile, str) else profile, seed)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            yield base_url(bound)
        finally:
            server.should_exit = True
            thread.join()


def distance_excess(planted: Counterfactual, axis: str, group: str, other: str) -> float:
    """The planted mean of `counterfactual_distance_excess` for a prompt about `group`, swapped towards `other`."""
    mine, theirs = planted.shifts(axis, group), planted.shifts(axis, other)
    pairs = (mine, theirs), (mine, mine), (theirs, theirs)
    across, *within = (sum(abs(a - b) for a in left for b in right) / 4 for left, right in pairs)
    return across - sum(within) / 2
