"""What an auditor sees of the live requests at one server, through the files of the gateways beside it."""

from pathlib import Path

from gateway.auditor.backpressure.limiter import LiveView, Seen
from gateway.proxy.live_waits import Waiting, Waits
from gateway.proxy.waits_board import LOOK_SECONDS, STALE_SECONDS, BoardFile, BoardReader

HERE = "http://127.0.0.1:8000"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_stream_that_waits_is_seen_within_two_looks(tmp_path: Path) -> None:
    """Written at the next look of the gateway, judged at the next one of the auditor: a tenth of a second."""
    clock, file = Clock(), BoardFile(tmp_path)
    view = LiveView(BoardReader(tmp_path), HERE, clock=clock)
    file.show({HERE: Waits()}, clock.now)
    assert view.look(audits=4) == Seen(0, 0)
    began = clock.now
    clock.now += LOOK_SECONDS
    file.show({HERE: Waits(Waiting(2, began), Waiting(), 2)}, clock.now)
    clock.now += LOOK_SECONDS
    assert view.look(audits=4) == Seen(2, 2)
    view.audits_were_cut()
    assert view.look(audits=2) == Seen(2, 0)


def test_nothing_is_seen_of_other_servers_and_of_dead_gateways(tmp_path: Path) -> None:
    """None is not the same as nobody waiting."""
    clock, file = Clock(), BoardFile(tmp_path)
    file.show({HERE: Waits()}, clock.now)
    assert LiveView(BoardReader(tmp_path), "http://127.0.0.1:9000", clock=clock).look(audits=1) is None
    view = LiveView(BoardReader(tmp_path), HERE, clock=clock)
    clock.now += STALE_SECONDS
    assert view.look(audits=1) is None
    assert LiveView(BoardReader(tmp_path / "missing"), HERE, clock=clock).look(audits=1) is None
