"""Which audits are cut off, which are left alone, and when the server is believed to have noticed."""

import asyncio

import pytest

from auditors.clients.pacing import EvictedError, Turn
from gateway.auditor.backpressure.running import EVICTED, MOST_EVICTIONS, WASTED, Running, Ticket
from gateway.auditor.backpressure.vllm_load import Load

BODY = b'{"max_tokens": 10}'


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def running(count: int) -> tuple[Running, Clock, list[Ticket]]:
    """So many in flight, sent a second apart."""
    clock = Clock()
    made = Running(clock)
    tickets = []
    for _ in range(count):
        clock.now += 1.0
        tickets.append(made.add(Turn(BODY), is_let_through=False))
    return made, clock, tickets


def evictions(tickets: list[Ticket]) -> list[int]:
    return [ticket.turn.evictions for ticket in tickets]


def test_the_newest_go_first_and_are_counted() -> None:
    """Down to what is allowed; requests by their reason, tokens by their kind."""
    made, _, tickets = running(4)
    assert made.evict_newest(1, "live_waiting", seconds_per_token=1.0) == 2.0
    assert evictions(tickets) == [0, 1, 1, 1]
    assert len(made) == 1
    assert made.evictions == {(EVICTED, "live_waiting"): 3, (WASTED, "prompt"): 15, (WASTED, "generation"): 3}


def test_one_that_was_let_through_is_left_alone() -> None:
    """But for one at a time, and it counts among those allowed."""
    made, _, tickets = running(1)
    tickets += [made.add(Turn(BODY), is_let_through=True) for _ in range(2)]
    made.evict_newest(0, "live_waiting", seconds_per_token=None)
    assert evictions(tickets) == [1, 0, 1]
    assert len(made) == 1


def test_one_that_was_cut_off_often_is_left_alone() -> None:
    """After MOST_EVICTIONS a request runs to its end, so that all are answered in the end."""
    made, clock, _ = running(0)
    turn = Turn(BODY)
    for _ in range(MOST_EVICTIONS):
        ticket = made.add(turn, is_let_through=False)
        made.evict_newest(0, "live_latency", seconds_per_token=None)
        made.remove(ticket)
        clock.now += 1.0
    made.add(turn, is_let_through=False)
    other = made.add(Turn(BODY), is_let_through=False)
    assert made.evict_newest(0, "live_latency", seconds_per_token=None) == 0.0
    assert (turn.evictions, other.turn.evictions) == (MOST_EVICTIONS, 1)


def test_the_server_confirms_the_end() -> None:
    """Not before the connections are closed, and not while it still holds as many requests as before."""
    made, _, tickets = running(4)
    made.polled(Load(running=6), began=3.0)
    made.evict_newest(2, "live_waiting", seconds_per_token=None)
    made.polled(Load(running=4), began=4.0)
    assert made.unconfirmed == 2
    for ticket in tickets[2:]:
        made.remove(ticket)
    made.polled(Load(running=6), began=4.0)
    assert (made.unconfirmed, made.is_confirming) == (2, True)
    made.polled(Load(running=4), began=4.0)
    assert (made.unconfirmed, made.is_confirming) == (0, False)


async def test_a_ticket_ends_its_attempt_and_nothing_else() -> None:
    """The attempt ends with EvictedError wherever it stood; a time limit around it or of its own keeps its meaning."""
    ticket = Ticket(Turn(BODY), sent_at=0.0, is_spared=False)
    asyncio.get_running_loop().call_later(0.01, ticket.evict)
    with pytest.raises(EvictedError):
        async with ticket.until_evicted(), asyncio.timeout(30):
            await asyncio.sleep(30)
    with pytest.raises(EvictedError):  # cut off between its admission and its beginning
        async with ticket.until_evicted():
            pytest.fail("it began")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), Ticket(Turn(BODY), sent_at=0.0, is_spared=False).until_evicted():
            await asyncio.sleep(30)
    with pytest.raises(TimeoutError):
        async with Ticket(Turn(BODY), sent_at=0.0, is_spared=False).until_evicted(), asyncio.timeout(0.01):
            await asyncio.sleep(30)
