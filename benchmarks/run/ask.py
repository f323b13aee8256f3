"""Asks what a plan needs and its log does not have: bounded in flight, every reply kept, resumed after any of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.types import Completer
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run.asker import MOST_AT_ONCE, SHARE_OF_FLIGHT, Answer, Asker, answerer
from benchmarks.run.log import Replies, RunLog, kept
from benchmarks.run.plan import Plan
from benchmarks.run.share import Group, Ranges, Share, Terms, Whole, ranges_of
from benchmarks.run.stopping import GRACE_SECONDS
from benchmarks.run.thinking import probe_once
from benchmarks.suites.protocol import Item, Reply

AUTO_CONCURRENCY = 32
"""Requests in flight unless told otherwise: fills a small vLLM without flooding it."""
MOST_ARRIVED = 256
"""Replies that may wait to be kept: a log slower than the model holds the asking back."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    done: int
    total: int
    rate: float
    """Replies a second since this process started asking."""
    eta_seconds: float | None
    """Seconds left; None until the rate is known."""
    n_errors: int = 0
    """Requests of this process that got no reply at all."""


async def ask(
    plan: Plan,
    *,
    completer: Completer,
    log: RunLog,
    judge: JudgeClient | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    open_answer: Callable[[], Awaitable[Answer]] | None = None,
    on_kept: Callable[[Replies, Sequence[Reply]], None] | None = None,
    share: Share | None = None,
    terms: Callable[[], Terms] | None = None,
) -> Replies:
    """Asks every (item, sample) without a reply in the log, and returns all replies of the plan.
    A reply that the judge could not be asked about is kept; only the judge is asked again. Once `stop` is set no item
    is asked, and what is in flight has GRACE_SECONDS. `open_answer` gives what asks one item, before anything is asked;
    None: `answerer` with its own probe. `on_kept` hears of replies once in the log: first of none, then of each batch.
    With a `share`, other processes may ask part of it on the `terms`, which are looked up after `open_answer`.
    """
    stop = stop or asyncio.Event()
    replies = await kept(plan, log)
    n_done = replies.n_answered
    report = _reporter(plan.total, n_done, on_progress)
    report(0, 0)
    if on_kept is not None:
        on_kept(replies, ())
    if open_answer is None:
        options = plan.options
        is_exact = options.mode == "exact"
        probe = probe_once(completer, options.model, options.thinking, options.extra_body, is_exact=is_exact)
        open_answer = partial(answerer, plan, completer, probe)
    answer = await open_answer() if n_done < plan.total else _nothing_to_ask
    asker = Asker(plan, answer, judge, seen_reply=n_done > 0)

    def note(batch: Sequence[Reply]) -> None:
        nonlocal n_done
        n_done += len(batch)
        if on_kept is not None:
            on_kept(replies, batch)
        report(len(batch), sum(reply.status == "error" for reply in batch))

    ranges = ranges_of(replies, len(plan.items)) if share is not None else []
    part: Whole | Ranges = Whole(plan, replies, log)
    if share is not None and terms is not None and ranges:
        await share.offer(ranges, terms())
        part = Ranges(plan, replies, share, note)
    is_whole = await _ask_part(plan, asker, part, stop, note)
    if is_whole:
        asker.ended()
    if asker.verdict:
        raise BenchmarkError(asker.verdict)
    if not is_whole:
        raise RunStopped(n_done, plan.total)
    return replies


async def assist(
    plan: Plan,
    *,
    share: Share,
    read: Callable[[int], Reply],
    answer: Answer,
    judge: JudgeClient | None,
    stop: asyncio.Event,
) -> None:
    """Asks ranges of another's run, until none or `stop`. `read`: from the share. BenchmarkError: a server is away."""
    asker = Asker(plan, answer, judge, seen_reply=False)
    part = Ranges(plan, Replies(plan.items, plan.options.samples, read), share, None)
    await _ask_part(plan, asker, part, stop, lambda _: None)
    if asker.verdict:
        raise BenchmarkError(asker.verdict)


async def _ask_part(
    plan: Plan, asker: Asker, part: Whole | Ranges, stop: asyncio.Event, on_kept: Callable[[Sequence[Reply]], None]
) -> bool:
    """Ask, keep and report what was kept. Return whether all of it was asked."""
    arrived: asyncio.Queue[Reply | None] = asyncio.Queue(MOST_ARRIVED)
    in_flight = plan.options.concurrency or AUTO_CONCURRENCY
    groups = _OneByOne(part.groups(max(1, min(MOST_AT_ONCE, in_flight // SHARE_OF_FLIGHT))))

    async def work() -> None:
        while not stop.is_set() and not asker.verdict and (group := await groups.next()) is not None:
            item, samples, earlier = group
            n_answered = 0
            while n_answered < len(samples):
                if stop.is_set() or asker.verdict:
                    groups.is_through = False
                    return
                async for reply in asker.ask(item, samples[n_answered:], earlier):
                    n_answered += 1
                    await arrived.put(reply)

    workers = [asyncio.create_task(work()) for _ in range(in_flight)]
    ending = asyncio.create_task(_end(workers, stop, arrived))
    collecting = asyncio.create_task(part.collect())
    try:
        async for batch in _batches(arrived, part.pause_seconds):
            on_kept(await part.keep(batch))
        await ending
        is_through = groups.is_through and not any(worker.cancelled() for worker in workers)
        if is_through:
            await collecting
    finally:
        for task in (ending, collecting, *workers):
            task.cancel()
        await asyncio.gather(ending, collecting, *workers, return_exceptions=True)
    for worker in workers:
        if not worker.cancelled():
            worker.result()
    return is_through


class _OneByOne:
    def __init__(self, groups: AsyncIterator[Group]) -> None:
        self.is_through = False
        self._groups = groups
        self._turn = asyncio.Lock()

    async def next(self) -> Group | None:
        async with self._turn:
            if self.is_through:
                return None
            try:
                return await anext(self._groups)
            except StopAsyncIteration:
                self.is_through = True
                return None


async def _end(
    workers: Sequence[asyncio.Task[None]], stop: asyncio.Event, arrived: asyncio.Queue[Reply | None]
) -> None:
    """Waits for the workers, once stopped for no longer than GRACE_SECONDS, and puts a None behind their replies."""
    stopping = asyncio.create_task(stop.wait())
    try:
        working = asyncio.gather(*workers, return_exceptions=True)
        waited_for: set[asyncio.Future[Any]] = {working, stopping}
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait({working}, timeout=GRACE_SECONDS)
            for worker in workers:
                worker.cancel()
        await working
    finally:
        stopping.cancel()
    await arrived.put(None)


async def _nothing_to_ask(item: Item, n: int) -> Sequence[Reply]:
    raise AssertionError(f"{item.item_id} was answered")


def _reporter(total: int, already: int, callback: Callable[[Progress], None] | None) -> Callable[[int, int], None]:
    since, new, failed = time.perf_counter(), 0, 0

    def report(n_new: int, n_errors: int) -> None:
        nonlocal new, failed
        new, failed = new + n_new, failed + n_errors
        elapsed, done = time.perf_counter() - since, already + new
        rate = new / elapsed if new and elapsed > 0 else 0.0
        eta = (total - done) / rate if rate else None
        if callback is not None:
            callback(Progress(done=done, total=total, rate=rate, eta_seconds=eta, n_errors=failed))

    return report


async def _batches(arrived: asyncio.Queue[Reply | None], pause_seconds: float) -> AsyncIterator[list[Reply]]:
    """Whatever has arrived since the last batch was written, or within a pause behind the first, up to the None."""
    is_open = True
    while is_open:
        entries = [await arrived.get()]
        if pause_seconds and entries[0] is not None:
            await asyncio.sleep(pause_seconds)
        while not arrived.empty():
            entries.append(arrived.get_nowait())
        batch = [entry for entry in entries if entry is not None]
        is_open = len(batch) == len(entries)
        if batch:
            yield batch
