"""Asks what a plan needs and its log does not have: bounded in flight, every reply kept, resumed after any of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.thinking import is_exhausted, told_apart
from auditors.types import Completer, Completion, CompletionError, CompletionRequest
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import judge as judged
from benchmarks.run.draws import Draws, most_at_once
from benchmarks.run.exact.measuring import open_reader
from benchmarks.run.log import RunLog
from benchmarks.run.plan import Key, Plan
from benchmarks.run.replies import Replies, kept
from benchmarks.run.share import Asked, Range, Share, Taken, Terms, ranges_of
from benchmarks.run.stopping import GRACE_SECONDS
from benchmarks.run.thinking import FATAL_STATUS_CODES, Probe, ThinkingFound, probe_once
from benchmarks.suites.protocol import REFUSAL_FIELD, Item, Parsed, Reply

AUTO_CONCURRENCY = 32
"""Requests in flight unless told otherwise: fills a small vLLM without flooding it."""
MOST_ARRIVED = 256
"""Replies that may wait to be kept: a log slower than the model holds the asking back."""
GIVE_UP_AFTER = 20
"""Failed requests in a row, with none answered before, after which a run stops: the server is not there."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    done: int
    total: int
    rate: float
    """Replies a second since this process started asking."""
    eta_seconds: float | None
    """None until the rate is known."""
    n_errors: int = 0
    """Of those asked by this process, requests that got no reply at all."""


async def ask(
    plan: Plan,
    *,
    completer: Completer,
    log: RunLog,
    judge: JudgeClient | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    open_answer: Callable[[], Awaitable["Answer"]] | None = None,
    on_kept: Callable[[Replies, Sequence[Reply]], None] | None = None,
    share: Share | None = None,
    terms: Callable[[], Terms] | None = None,
) -> Replies:
    """Asks every (item, sample) that the log has no reply to, and returns all replies of the plan.

    A reply that the judge could not be asked about is kept, and only the judge is asked again. Once `stop` is set no
    further item is asked, and what is in flight has GRACE_SECONDS. `open_answer` gives what asks one item, before
    anything is asked; None: `answerer` with a probe of its own. `on_kept` hears of replies once they are in the log: of
    none, before anything is asked, and then of each batch. With a `share`, other processes may ask part of it on the
    `terms`, which are looked up once `open_answer` has given what it gives.
    """
    stop = stop or asyncio.Event()
    replies = await kept(plan, log)
    n_done = replies.n_answered
    report = _Reporter(plan.total, n_done, on_progress)
    report()
    if on_kept is not None:
        on_kept(replies, ())
    if open_answer is None:
        options = plan.options
        is_exact = options.mode == "exact"
        probe = probe_once(completer, options.model, options.thinking, options.extra_body, is_exact=is_exact)
        open_answer = partial(answerer, plan, completer, probe)
    answer = await open_answer() if n_done < plan.total else _nothing_to_ask
    asker = _Asker(plan, answer, judge, seen_reply=n_done > 0)

    def note(batch: Sequence[Reply]) -> None:
        nonlocal n_done
        n_done += len(batch)
        if on_kept is not None:
            on_kept(replies, batch)
        report(len(batch), sum(reply.status == "error" for reply in batch))

    ranges = ranges_of(replies, len(plan.items)) if share is not None else []
    part: _Whole | _Ranges = _Whole(plan, replies, log)
    if share is not None and terms is not None and ranges:
        await share.offer(ranges, terms())
        part = _Ranges(plan, replies, share, note)
    is_whole = await _ask_part(plan, asker, part, stop, note)
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
    answer: "Answer",
    judge: JudgeClient | None,
    stop: asyncio.Event,
) -> None:
    """Asks ranges of a run that another process has, until there are none.

    Args:
        plan: the run's, which was made here as well.
        share: where the ranges are.
        read: finds a reply where `share` has put it.
        answer: asks one item.
        judge: for suites with a judge.
        stop: as in `ask`, but nothing is raised.

    Raises: BenchmarkError when a server gives no answer here.
    """
    asker = _Asker(plan, answer, judge, seen_reply=False)
    part = _Ranges(plan, Replies(plan.items, plan.options.samples, read), share, None)
    await _ask_part(plan, asker, part, stop, lambda _: None)
    if asker.verdict:
        raise BenchmarkError(asker.verdict)


async def _ask_part(
    plan: Plan,
    asker: "_Asker",
    part: "_Whole | _Ranges",
    stop: asyncio.Event,
    on_kept: Callable[[Sequence[Reply]], None],
) -> bool:
    """Asks, keeps and tells of what was kept. Whether all of it was asked."""
    arrived: asyncio.Queue[Reply | None] = asyncio.Queue(MOST_ARRIVED)
    in_flight = plan.options.concurrency or AUTO_CONCURRENCY
    groups = _OneByOne(part.groups(most_at_once(in_flight)))

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


Group = tuple[Item, Sequence[int], Reply | None]
"""An item, the samples of it to ask for together, and the reply whose text is there already."""


class _OneByOne:
    """Hands the groups out to several workers."""

    def __init__(self, groups: AsyncIterator[Group]) -> None:
        self.is_through = False
        """Whether every group was handed out."""
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


class _Whole:
    """All that is missing, asked by this process alone."""

    pause_seconds = 0.0

    def __init__(self, plan: Plan, replies: Replies, log: RunLog) -> None:
        self._replies = replies
        self._log = log

    async def groups(self, most: int) -> AsyncIterator[Group]:
        for group in _groups(self._replies.missing(), most):
            yield group

    async def keep(self, batch: Sequence[Reply]) -> Sequence[Reply]:
        for reply, place in zip(batch, await self._log.append(batch), strict=True):
            self._replies.put(reply, place)
        return batch

    async def collect(self) -> None:
        """Nobody else asks."""


class _Ranges:
    """What is missing in the ranges that this process gets."""

    pause_seconds = 0.1
    """Replies wait so long for others: a transaction costs as much as several requests."""

    def __init__(
        self, plan: Plan, replies: Replies, share: Share, on_collected: Callable[[Sequence[Reply]], None] | None
    ) -> None:
        """`on_collected` hears of replies that others have asked for; None: not this process's matter."""
        self._plan = plan
        self._replies = replies
        self._share = share
        self._on_collected = on_collected
        self._range_of = dict[str, Range]()
        """By item, of the ranges that are being asked."""
        self._left = dict[Range, set[Key]]()
        """Of each the replies that have not come yet."""

    async def groups(self, most: int) -> AsyncIterator[Group]:
        while (taken := await self._share.take(self._plan)) is not None:
            part = taken.range
            self._put(taken, is_whole=False)
            left = {(item.item_id, sample) for item, sample, _ in self._replies.missing(*part)}
            if not left:
                await self._share.keep([Asked(part, (), is_whole=True)])
                continue
            self._left[part] = left
            self._range_of |= dict.fromkeys((item_id for item_id, _ in left), part)
            for group in _groups(self._replies.missing(*part), most):
                if self._share.has_lost(part):
                    self._forget(part)
                    break
                yield group

    async def keep(self, batch: Sequence[Reply]) -> Sequence[Reply]:
        by_range = dict[Range, list[Reply]]()
        for reply in batch:
            part, key = self._range_of.get(reply.item_id), (reply.item_id, reply.sample)
            if part is not None and key in self._left[part]:  # otherwise it comes too late
                self._left[part].remove(key)
                by_range.setdefault(part, []).append(reply)
        asked = [Asked(part, came, is_whole=not self._left[part]) for part, came in by_range.items()]
        found = list[Reply]()
        for one, places in zip(asked, await self._share.keep(asked), strict=True):
            if places is not None:
                for reply, place in zip(one.replies, places, strict=True):
                    self._replies.put(reply, place)
                found += one.replies
            if one.is_whole or places is None:
                self._forget(one.range)
        return found

    async def collect(self) -> None:
        while self._on_collected is not None and (found := await self._share.collect(self._plan)) is not None:
            for taken in found:
                self._put(taken, is_whole=True)
                await asyncio.sleep(0)

    def _put(self, taken: Taken, *, is_whole: bool) -> None:
        """Replies of others; where they are not all of the range, what failed is asked again."""
        new = list[Reply]()
        for place, reply in taken.replies:
            if self._replies.lacks(reply.item_id, reply.sample):
                self._replies.put(reply, place)
                new += [reply] if is_whole or reply.status != "error" else []
        if new and self._on_collected is not None:
            self._on_collected(new)

    def _forget(self, part: Range) -> None:
        if self._left.pop(part, None) is not None:
            for item in self._plan.items[part.first : part.past]:
                self._range_of.pop(item.item_id, None)


def _groups(missing: Iterator[tuple[Item, int, Reply | None]], most: int) -> Iterator[Group]:
    """Item and samples to be asked for together, or one whose text is there, with the reply that has it."""
    waiting: tuple[Item, list[int]] | None = None
    for item, sample, earlier in missing:
        has_text = earlier is not None and earlier.text is not None
        if waiting is not None and (has_text or waiting[0] is not item or len(waiting[1]) >= most):
            yield *waiting, None
            waiting = None
        if has_text:
            yield item, [sample], earlier
        elif waiting is None:
            waiting = item, [sample]
        else:
            waiting[1].append(sample)
    if waiting is not None:
        yield *waiting, None


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


class _Health:
    """Notices a server that will not answer, so that a wrong URL costs twenty requests and not thousands."""

    def __init__(self, who: str, *, seen_reply: bool) -> None:
        self.verdict: str | None = None
        self._who = who
        self._seen_reply = seen_reply
        self._failed_in_a_row = 0

    def answered(self) -> None:
        self._seen_reply = True

    def failed(self, error: CompletionError) -> None:
        self._failed_in_a_row += 1
        if self._seen_reply or self.verdict:
            return
        if error.status_code in FATAL_STATUS_CODES:
            self.verdict = f"the {self._who} refuses: {error}"
        elif self._failed_in_a_row >= GIVE_UP_AFTER:
            self.verdict = f"none of the first {self._failed_in_a_row} requests to the {self._who} was answered; "
            self.verdict += f"the last: {error}"


Answer = Callable[[Item, int], Awaitable[Sequence[Reply]]]
"""One to so many replies to an item, in the mode of the plan. Raises CompletionError."""


async def answerer(plan: Plan, completer: Completer, probe: Probe) -> Answer:
    """What asks one item in the mode of the plan, once `probe` has found out how the server handles thinking."""
    thinking = await probe()
    if plan.options.mode == "exact":
        return await open_reader(plan, completer, thinking)
    return partial(_sampled, plan, Draws(completer), thinking)


async def _nothing_to_ask(item: Item, n: int) -> Sequence[Reply]:
    raise AssertionError(f"{item.item_id} was answered")


class _Asker:
    """Asks the model, and then the judge where the suite has one."""

    def __init__(self, plan: Plan, answer: Answer, judge: JudgeClient | None, *, seen_reply: bool) -> None:
        self._plan = plan
        self._answer = answer
        self._judge = judge
        self._model_health = _Health("model server", seen_reply=seen_reply)
        self._judge_health = _Health("judge", seen_reply=seen_reply)

    @property
    def verdict(self) -> str | None:
        """Why asking on is of no use; None while it is."""
        return self._model_health.verdict or self._judge_health.verdict

    async def ask(self, item: Item, samples: Sequence[int], earlier: Reply | None) -> AsyncIterator[Reply]:
        """Replies to at least the first of the samples, judged. The text of an `earlier` one, which failed for want of
        a judge, is not asked for again.
        """
        if earlier is not None and earlier.text is not None:
            parsed = self._plan.suite.parse(item, earlier.text, protocol=self._plan.options.protocol)
            replies: Sequence[Reply] = [
                msgspec.structs.replace(
                    earlier, status=parsed.status, parsed=parsed.value, rule=parsed.rule, error=None
                )
            ]
        else:
            replies = await self._generated(item, samples)
        for reply in replies:
            yield reply if self._judge is None else await self._judged(item, reply, self._judge)

    async def _generated(self, item: Item, samples: Sequence[int]) -> Sequence[Reply]:
        try:
            replies = await self._answer(item, len(samples))
        except CompletionError as exc:
            self._model_health.failed(exc)
            return [Reply(item_id=item.item_id, sample=samples[0], status="error", error=f"{exc.kind}: {exc}")]
        self._model_health.answered()
        return [msgspec.structs.replace(reply, sample=sample) for reply, sample in zip(replies, samples, strict=False)]

    async def _judged(self, item: Item, reply: Reply, judge: JudgeClient) -> Reply:
        try:
            found = await judged.judge(self._plan, item, reply, judge)
        except CompletionError as exc:
            self._judge_health.failed(exc)
            return judged.unjudged(reply, exc)
        if found.judge is not None:
            self._judge_health.answered()
        return found


async def _sampled(plan: Plan, draws: Draws, thinking: ThinkingFound, item: Item, n: int) -> list[Reply]:
    # What all choices thought is told in one number: of a model that thinks, each reply is asked for by itself.
    found = await draws.complete(_request(plan, item, thinking), 1 if thinking.thinks else n)
    return [_reply(plan, item, thinking, completion) for completion in found]


def _reply(plan: Plan, item: Item, thinking: ThinkingFound, completion: Completion) -> Reply:
    completion = told_apart(completion, is_begun=thinking.field == "begun")
    reply = Reply(
        item_id=item.item_id,
        reasoning=completion.reasoning if plan.options.keep_reasoning else None,
        finish_reason=completion.finish_reason,
        usage=dict(completion.usage) if completion.usage else None,
        fingerprint=completion.fingerprint,
    )
    if is_exhausted(completion):
        return msgspec.structs.replace(reply, status="thinking_exhausted")
    parsed = _read(plan, item, completion)
    return msgspec.structs.replace(
        reply,
        text=completion.refusal if completion.text is None else completion.text,
        status=parsed.status,
        parsed=parsed.value,
        rule=parsed.rule,
    )


def _read(plan: Plan, item: Item, completion: Completion) -> Parsed:
    if completion.refusal is not None and not completion.text:
        return Parsed("refusal", rule=REFUSAL_FIELD)
    return plan.suite.parse(item, completion.text, protocol=plan.options.protocol)


def _request(plan: Plan, item: Item, thinking: ThinkingFound) -> CompletionRequest:
    """Carries no seed: under batching it fixes no reply, and vLLM 0.32 on a CPU dies of one prefilled in parts."""
    sampling = item.sampling or plan.suite.sampling(plan.options.protocol)
    return CompletionRequest(
        model=plan.options.model,
        messages=item.messages,
        max_tokens=sampling.max_tokens + thinking.room,
        temperature=sampling.temperature if plan.options.temperature is None else plan.options.temperature,
        top_p=sampling.top_p,
        extra=({} if sampling.top_k is None else {"top_k": sampling.top_k}) | thinking.sent,
    )


class _Reporter:
    def __init__(self, total: int, already: int, callback: Callable[[Progress], None] | None) -> None:
        self._total = total
        self._already = already
        self._new = 0
        self._n_errors = 0
        self._callback = callback
        self._since = time.perf_counter()

    def __call__(self, n_new: int = 0, n_errors: int = 0) -> None:
        self._new += n_new
        self._n_errors += n_errors
        if self._callback is None:
            return
        elapsed = time.perf_counter() - self._since
        rate = self._new / elapsed if self._new and elapsed > 0 else 0.0
        done = self._already + self._new
        eta = (self._total - done) / rate if rate else None
        self._callback(Progress(done=done, total=self._total, rate=rate, eta_seconds=eta, n_errors=self._n_errors))


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
