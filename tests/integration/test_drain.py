"""The end of real processes: not ready first, closed to new clients, done with the old ones, and counted."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gateway.left_counts import left_counts
from tests.support.integration.load import CHAT, COMPLETIONS, steady_load
from tests.support.integration.scraping import Scrape, scrape_anew
from tests.support.integration.scripted_upstream import scripted_upstream
from tests.support.integration.serving import Command, children_of, closed, serving, write_config
from tests.support.integration.streaming import WHOLE, Stream, held, open_streams, served_by

pytestmark = pytest.mark.long


def configured(directory: Path, upstream: str, drain: str) -> Path:
    """A configuration with these lines in place of the usual time to drain."""
    path = write_config(directory, upstream, f'metrics_dir = "{directory / "counts"}"\n')
    path.write_text(path.read_text().replace("drain_seconds = 10", drain))
    return path


def ends(directory: Path) -> dict[str, int]:
    """Ended requests by outcome, as the processes left them behind."""
    counted: dict[str, int] = {}
    for path in (directory / "counts").glob("*.counts"):
        for series in left_counts(path).series:
            counted[series.outcome] = counted.get(series.outcome, 0) + sum(series.duration)
    return counted


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_sigterm_truncates_none_of_a_hundred_streams(tmp_path: Path, workers: str) -> None:
    """All of them are relayed to their last byte while new connections are refused; each counts as complete."""
    release = asyncio.Event()
    async with scripted_upstream(default=held(release)) as upstream:
        path = configured(tmp_path, upstream.base_url, "drain_seconds = 60")
        async with (
            serving("gateway", "--config", str(path), "--workers", workers) as running,
            open_streams(running.root) as opened,
        ):
            streams = [await opened.open() for _ in range(100)]
            running.process.send_signal(signal.SIGTERM)
            await closed(int(running.root.rpartition(":")[2]))
            release.set()
            received = await asyncio.gather(*(stream.rest() for stream in streams))
            code = await running.exit_code()

    assert received == [WHOLE] * 100
    assert code == 0
    assert ends(tmp_path) == {"complete": 100}
    assert [line for line in running.lines if "in flight were finished" in line]


@pytest.mark.parametrize(
    ("workers", "drain", "signals"),
    [("1", "drain_seconds = 0.5", 1), ("1", "drain_seconds = 600", 2), ("2", "drain_seconds = 600", 2)],
)
async def test_end_of_drain_or_second_sigterm_ends_streams_with_a_reason(
    tmp_path: Path, workers: str, drain: str, signals: int
) -> None:
    """Each client is told in its stream why it ends, each end is counted as timed_out, and one line says how many."""
    release = asyncio.Event()
    async with scripted_upstream(default=held(release)) as upstream:
        path = configured(tmp_path, upstream.base_url, drain)
        async with (
            serving("gateway", "--config", str(path), "--workers", workers) as running,
            open_streams(running.root) as opened,
        ):
            streams = [await opened.open() for _ in range(3)]
            for _ in range(signals):
                running.process.send_signal(signal.SIGTERM)
                await closed(int(running.root.rpartition(":")[2]))
            received = await asyncio.gather(*(stream.rest() for stream in streams))
            code = await running.exit_code()
        release.set()

    for text in received:
        assert text is not None
        assert text.startswith(b"data: a\n\n")
        assert b"had not finished when the gateway stopped" in text
        assert b"[DONE]" not in text
    assert code == 0
    assert ends(tmp_path) == {"timed_out": 3}
    assert [line for line in running.lines if "exchanges were ended unfinished" in line]


async def test_not_ready_comes_first(tmp_path: Path) -> None:
    """During the notice /readyz fails, all else is served, and each response sends its client away; then it is over."""
    async with scripted_upstream() as upstream:
        path = configured(tmp_path, upstream.base_url, "drain_seconds = 60\ndrain_notice_seconds = 600")
        async with serving("gateway", "--config", str(path), "--workers", "2") as running:
            async with running.http() as kept:
                before = await kept.post(COMPLETIONS, json=CHAT)
                running.process.send_signal(signal.SIGTERM)
                for _ in range(4):
                    await not_ready(running)
                on_old_connection = await kept.post(COMPLETIONS, json=CHAT)
            async with running.http() as http:
                on_new_connection = await http.post(COMPLETIONS, json=CHAT)
                own = await http.get("/livez")
            running.process.send_signal(signal.SIGTERM)
            await closed(int(running.root.rpartition(":")[2]))
            code = await running.exit_code()

    assert "connection" not in before.headers
    for answer in (on_old_connection, on_new_connection, own):
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert code == 0


async def not_ready(running: Command) -> None:
    """Waits until a new connection learns from /readyz that the gateway is stopping."""
    async with asyncio.timeout(30):
        while True:
            async with running.http() as http:
                answer = await http.get("/readyz")
            if answer.status_code == 503:
                assert "stopping" in answer.json()["checks"]["server"]
                return
            await asyncio.sleep(0.05)


async def test_killed_worker_loses_only_its_own_streams(tmp_path: Path) -> None:
    """Those of the other worker go on to their end, and a new worker takes its place."""
    release = asyncio.Event()
    async with scripted_upstream(default=held(release)) as upstream:
        path = configured(tmp_path, upstream.base_url, "drain_seconds = 60")
        async with (
            serving("gateway", "--config", str(path), "--workers", "2") as running,
            open_streams(running.root) as opened,
        ):
            victim, other = children_of(running.process.pid)["gateway"]
            streams: list[Stream] = []
            while len(streams) < 40 or min(len(served_by(victim)), len(served_by(other))) < 5:
                streams.append(await opened.open())
                assert len(streams) < 500, "all connections went to one worker"
            doomed = served_by(victim)
            os.kill(victim, signal.SIGKILL)
            await running.line("is started again")
            broken = await asyncio.gather(*(stream.rest() for stream in streams if stream.port in doomed))
            release.set()
            whole = await asyncio.gather(*(stream.rest() for stream in streams if stream.port not in doomed))
            async with asyncio.timeout(40):
                while len(workers := children_of(running.process.pid).get("gateway", [])) < 2:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)

    assert set(broken) == {None}
    assert set(whole) == {WHOLE}
    assert other in workers
    assert victim not in workers


async def test_counters_are_exact_when_quiet_and_never_fall(tmp_path: Path) -> None:
    """Scrapes of two workers under load, a worker killed twice and a reload in between: no series goes back."""
    async with scripted_upstream() as upstream:
        path = configured(tmp_path, upstream.base_url, "drain_seconds = 60")
        async with serving("gateway", "--config", str(path), "--workers", "2") as running:
            scrapes = Scrapes(running)
            async with steady_load(running.root, connections=2) as load:
                await scrapes.take(400)
            assert load.failures == []
            await scrapes.until(lambda seen: sum(seen.totals("biasgate_requests_total")) >= load.answered)
            assert sum(scrapes.last.totals("biasgate_requests_total", outcome="complete")) == load.answered

            async with steady_load(running.root, connections=2):
                for kills in (1, 2):
                    os.kill(children_of(running.process.pid)["gateway"][0], signal.SIGKILL)
                    await running.line("is started again", count=kills)
                    await scrapes.take(200)
                    path.write_text(path.read_text().replace('"up', '"up-again'))
                    running.process.send_signal(signal.SIGHUP)
                    await running.line("configuration reloaded", count=kills)
                    await scrapes.take(100)

    assert scrapes.taken >= 1_000
    assert scrapes.fallen == []


class Scrapes:
    """Scrapes that now one and now the other worker answers, each compared with the one before."""

    def __init__(self, running: Command) -> None:
        self._running = running
        self.taken = 0
        self.fallen: list[object] = []
        self.last = Scrape({}, frozenset())

    async def take(self, count: int) -> None:
        goal = self.taken + count
        while self.taken < goal:
            try:
                seen = await scrape_anew(self._running.root)
            except OSError:
                continue  # it went to the worker that was killed
            if fallen := seen.fallen_since(self.last):
                self.fallen.append(fallen)
            self.last = seen
            self.taken += 1

    async def until(self, condition: Callable[[Scrape], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition(self.last):
                await self.take(1)
