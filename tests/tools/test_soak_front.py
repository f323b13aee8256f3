"""Who ends an exchange whose upstream goes away: the soak must expect what the gateway saw."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tools.soak.client import Connection
from tools.soak.front import Front, was_dropped

NOWHERE = "http://127.0.0.1:9"  # a stalled request never gets to a backend


@asynccontextmanager
async def fronts_expecting(request_id: str, count: int) -> AsyncIterator[list[Front]]:
    async with contextlib.AsyncExitStack() as stack:
        fronts = [Front(NOWHERE) for _ in range(count)]
        for front in fronts:
            await front.start()
            stack.push_async_callback(front.stop)
            front.expect(request_id)
        yield fronts


@asynccontextmanager
async def stalled(front: Front) -> AsyncIterator[Connection]:
    """A request that this front has and does not answer."""
    connection = await Connection.open(front.port)
    connection.send(b"POST /v1/responses HTTP/1.1\r\nx-request-id: a\r\nx-soak-fault: stall_first\r\n\r\n")
    await front.arrival("a")
    try:
        yield connection
    finally:
        connection.leave(by_reset=True)
        await asyncio.sleep(0)  # asyncio closes the socket a turn later


async def test_an_upstream_that_goes_away_owing_the_answer_has_dropped_it() -> None:
    """Only from its stop on, and only the one that owes it."""
    async with fronts_expecting("a", 2) as fronts:
        assert not was_dropped(fronts, "a")
        async with stalled(fronts[0]) as connection:
            await fronts[0].stop()
            assert not (await connection.read_answer()).is_whole
            assert was_dropped(fronts, "a")


async def test_it_has_not_when_another_was_asked_in_its_place_and_stays() -> None:
    """The other one then ends the exchange."""
    async with fronts_expecting("a", 2) as fronts:
        async with stalled(fronts[0]):
            await fronts[0].stop()
        assert was_dropped(fronts, "a")
        async with stalled(fronts[1]):
            assert not was_dropped(fronts, "a")


async def test_nor_when_it_is_asked_again_after_its_return_and_stays() -> None:
    """What it owed before is forgotten."""
    async with fronts_expecting("a", 1) as fronts:
        async with stalled(fronts[0]):
            await fronts[0].stop()
        assert was_dropped(fronts, "a")
        await fronts[0].start()
        async with stalled(fronts[0]):
            assert not was_dropped(fronts, "a")
