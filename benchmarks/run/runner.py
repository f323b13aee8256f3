"""Runs one suite, from the event loop's thread. Items are kept from full garbage collections (0.2 s for BBQ)."""

import asyncio
import gc
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

import msgspec

from auditors.clients.judge_client import JudgeClient
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.judge_validation import Validation
from auditors.text.thinking import OFF
from auditors.types import Completer, Embedder, JudgeForm, JudgeStamp
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import asked_again
from benchmarks.run.ask import AUTO_CONCURRENCY, Progress, ask
from benchmarks.run.ask import assist as ask_ranges
from benchmarks.run.asker import Answer, answerer
from benchmarks.run.completers.reply_cache import is_from_cache
from benchmarks.run.completers.served import ServedModel
from benchmarks.run.estimation import Precision, looks_of
from benchmarks.run.follow_up import EmbeddedBeside, extend_plan
from benchmarks.run.judge import stamps
from benchmarks.run.log import Placed, Replies, RunLog, kept
from benchmarks.run.plan import Plan, RunOptions, prepare, prompts_sha256
from benchmarks.run.result import Addresses, Repeats, Result
from benchmarks.run.score import headline, provenance_of, score
from benchmarks.run.share import Share, Terms
from benchmarks.run.stopping import checkpoint_of, in_thread, unless_stopped
from benchmarks.run.thinking import ThinkingFound, probe_once
from benchmarks.suites.protocol import Reply

NEVER = 1_000_000_000
"""Collections of the middle generation before a full one by itself."""

_making = 0
_kept = 0
_thresholds = gc.get_threshold()


@contextmanager
def no_full_collections() -> Iterator[None]:
    """Switch full collections off while long-lived objects are made, in any thread: nearly nothing of it is garbage."""
    global _making, _thresholds
    if not _making:
        _thresholds = gc.get_threshold()
        gc.set_threshold(*_thresholds[:2], NEVER)
    _making += 1
    try:
        yield
    finally:
        _making -= 1
        if not _making:
            gc.set_threshold(*_thresholds)


@contextmanager
def set_aside() -> Iterator[None]:
    """Keep the present objects out of garbage collection until the end of the last block of this kind."""
    global _kept
    gc.freeze()
    _kept += 1
    try:
        yield
    finally:
        _kept -= 1
        if not _kept:
            gc.unfreeze()


__all__ = ["AUTO_CONCURRENCY", "Plan", "Progress", "RunOptions", "ask", "assist", "prepare", "run", "run_plan"]


class Parts(TypedDict, total=False):
    """The optional parts of a run, without the server of its model and its log."""

    judge: Completer | None
    """Asks `options.judge_model`; None asks the server of the model under test."""
    judge_validation: Validation | None
    embedder: Embedder | None
    """Embedder for suites that compare texts; None leaves those numbers undefined."""
    on_progress: Callable[[Progress], None] | None
    """Called after every batch kept, at least once."""
    on_thinking: Callable[[ThinkingFound], None]
    """Called once with what the server does about thinking, before an item is asked."""
    addresses: Addresses | None
    share: Share | None
    """The share through which other processes ask part of the run (`assist`), if the run can be split."""


async def run(
    options: RunOptions,
    *,
    completer: Completer,
    log: RunLog,
    stop: asyncio.Event | None = None,
    data_dir: Path | None = None,
    **parts: Unpack[Parts],
) -> Result:
    """Prepares, asks what the log lacks (errors again), and scores. `stop` raises RunStopped within a second; replies
    that arrive within GRACE_SECONDS are kept. Raises BenchmarkError, DatasetError, RunStopped.
    """
    stop = stop or asyncio.Event()
    plan = await _prepared(options, data_dir, stop)
    with set_aside():
        return await run_plan(plan, completer=completer, log=log, stop=stop, **parts)


async def _prepared(options: RunOptions, data_dir: Path | None, stop: asyncio.Event) -> Plan:
    with no_full_collections():
        preparing = in_thread(prepare, options, data_dir, checkpoint=checkpoint_of(stop, _not_begun))
        return await unless_stopped(stop, preparing, _not_begun)


async def assist(
    terms: Terms,
    *,
    share: Share,
    read: Callable[[int], Reply],
    completer: Completer,
    judge: Completer | None = None,
    stop: asyncio.Event,
    data_dir: Path | None = None,
) -> None:
    """Asks ranges of a run that another process has, see `ask.assist`. Raises BenchmarkError, RunStopped."""
    if terms.biasgate != (here := version("biasgate")):
        raise BenchmarkError(f"the run is of biasgate {terms.biasgate}, this is {here}")
    plan = await _prepared(terms.options, data_dir, stop)
    if plan.prompt_sha256 != terms.prompt_sha256:
        raise BenchmarkError("its questions are others here: see that all auditors have the same data")

    async def found() -> ThinkingFound:
        return terms.thinking

    with set_aside():
        client = None
        if plan.judge_model is not None:
            judge_completer = ThinkingCompleter(ServedModel(judge or completer), OFF, expects_whole=True)
            client = JudgeClient(judge_completer, plan.judge_model, form=terms.judge_form)
        answer = await answerer(plan, ServedModel(completer), found)
        await ask_ranges(plan, share=share, read=read, answer=answer, judge=client, stop=stop)


async def run_plan(
    plan: Plan, *, completer: Completer, log: RunLog, stop: asyncio.Event | None = None, **parts: Unpack[Parts]
) -> Result:
    """Run a plan already made; otherwise the same as `run`."""
    stop = stop or asyncio.Event()
    running = _Run(plan, completer, log, stop, parts)
    return await unless_stopped(stop, running.result(), running.stopped)


def _not_begun() -> RunStopped:
    return RunStopped(0, 0)


class _Run:
    def __init__(self, plan: Plan, completer: Completer, log: RunLog, stop: asyncio.Event, parts: Parts) -> None:
        self._plan = plan
        self._completer = ServedModel(completer)
        self._log = log
        self._parts = parts
        self._judge = ServedModel(parts.get("judge") or completer)
        self._embedder = parts.get("embedder")
        self._embedding = EmbeddedBeside(plan, self._embedder, log)
        self._stop = stop
        self._checkpoint = checkpoint_of(stop, self.stopped)
        self._n_done = 0
        self._thinking: ThinkingFound | None = None
        self._answer: Answer | None = None
        options = plan.options
        self._probe_once = probe_once(
            self._completer, options.model, options.thinking, options.extra_body, is_exact=options.mode == "exact"
        )

    def stopped(self) -> RunStopped:
        """The error of a run that ends before its time, with what was asked by then."""
        return RunStopped(self._n_done, self._plan.total)

    def _report(self, progress: Progress) -> None:
        self._n_done = progress.done
        if (on_progress := self._parts.get("on_progress")) is not None:
            on_progress(progress)

    async def _probe(self) -> ThinkingFound:
        if self._thinking is None:
            self._thinking = await self._at_server(await self._probe_once())
            await self._log.keep_thinking(self._thinking)
            if (on_thinking := self._parts.get("on_thinking")) is not None:
                on_thinking(self._thinking)
        return self._thinking

    async def _at_server(self, thinking: ThinkingFound) -> ThinkingFound:
        """Return it with what is known of the server by now."""
        server = await self._completer.defaults(self._plan.options.model)
        return msgspec.structs.replace(thinking, server=server)

    async def result(self) -> Result:
        try:
            return await self._result()
        finally:
            self._embedding.close()

    async def _result(self) -> Result:
        beginning, clock = await self._log.begin(), time.perf_counter()
        plan, replies, precision = await self._asked_enough()
        complete = await in_thread(extend_plan, plan, replies, self._checkpoint)
        if complete is not plan:
            await self._log.keep_items(complete.items)
            replies = await self._asked(complete, total=complete.total)
        repeats = None
        if plan.options.repeat_share is not None:
            repeats = await self._repeats(plan)
            replies = await kept(complete, self._log)  # what had failed was asked for as well
        await self._embedding.finish()
        is_embedded, addresses = self._embedding.is_changed, self._parts.get("addresses")
        if is_embedded:
            replies = await kept(complete, self._log)
        about = {
            "base_url_host": None if addresses is None else urlsplit(addresses.base_url).netloc,
            "addresses": addresses,
            "judge_validation": self._parts.get("judge_validation"),
            "embedder": self._embedder.name if is_embedded and self._embedder is not None else None,
            "judge_defaults": self._judge.known,
            "thinking": beginning.thinking if self._thinking is None else await self._at_server(self._thinking),
            "started": datetime.fromtimestamp(beginning.started_at, UTC).isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(beginning.seconds + time.perf_counter() - clock, 3),
        }
        return await in_thread(self._scored, complete, replies, about, precision, repeats)

    async def _asked_enough(self) -> tuple[Plan, Replies, Precision | None]:
        """Return the part of the plan that was asked, with the replies: all, or what its precision needs."""
        if self._plan.options.precision is None:
            return self._plan, await self._asked(self._plan, share=self._parts.get("share")), None
        looks = await in_thread(looks_of, self._plan)
        for number, plan in looks.after([reply.item_id async for _, reply in self._logged()]):
            replies = await self._asked(plan)
            estimates = await in_thread(headline, plan, replies, looks.level, self._checkpoint)
            precision = looks.found(number, estimates)
            if precision.is_reached or plan is self._plan:
                break
        prompts = await in_thread(prompts_sha256, plan.items)
        return msgspec.structs.replace(plan, prompt_sha256=prompts), replies, precision

    async def _logged(self) -> AsyncIterator[Placed]:
        async for batch in self._log.read():
            for placed in batch:
                yield placed
            await asyncio.sleep(0)

    async def _open_answer(self) -> Answer:
        if self._answer is None:
            self._answer = await answerer(self._plan, self._completer, self._probe)
        return self._answer

    async def _repeats(self, plan: Plan) -> Repeats:
        again = await in_thread(asked_again.repeated, plan)
        n_before = len(again.items) * plan.options.samples
        replies = await self._asked(again, plan.total - n_before, plan.total + len(again.items))
        return await in_thread(asked_again.found, plan, again, replies, self._checkpoint)

    async def _asked(
        self, plan: Plan, n_before: int = 0, total: int | None = None, share: Share | None = None
    ) -> Replies:
        """Progress counts from `n_before`, of `total`; None: of all that the run asks."""
        if total is None:
            total = self._plan.total + math.ceil((self._plan.options.repeat_share or 0) * len(self._plan.items))

        def note(progress: Progress) -> None:
            done = n_before + progress.done
            left = (total - done) / progress.rate if progress.rate else None
            self._report(msgspec.structs.replace(progress, done=done, total=total, eta_seconds=left))

        judge = ThinkingCompleter(self._judge, OFF, expects_whole=True)
        form = await _judge_form(plan, self._log)
        client = None if plan.judge_model is None else JudgeClient(judge, plan.judge_model, form=form)

        def terms() -> Terms:
            if self._thinking is None:
                raise AssertionError("ranges are offered before the server was asked")
            return Terms(
                options=plan.options, prompt_sha256=plan.prompt_sha256, thinking=self._thinking, judge_form=form
            )

        try:
            return await ask(
                plan,
                completer=self._completer,
                log=self._log,
                judge=client,
                on_progress=note,
                stop=self._stop,
                open_answer=self._open_answer,
                on_kept=self._embedding.note,
                share=share,
                terms=terms,
            )
        except RunStopped as exc:
            raise RunStopped(n_before + exc.done, total) from None

    def _scored(
        self, plan: Plan, replies: Replies, about: dict[str, Any], precision: Precision | None, repeats: Repeats | None
    ) -> Result:
        thinking: ThinkingFound | None = about["thinking"]
        n_requests, n_used_again = thinking.requests if thinking is not None else 0, 0
        if thinking is not None:
            about |= {"thinking": msgspec.structs.replace(thinking, server=None), "server_defaults": thinking.server}
        n_requests += repeats.requests if repeats is not None else 0
        for reply in replies.values():
            self._checkpoint()
            n_requests += (reply.usage or {}).get("requests", 1)
            n_used_again += is_from_cache(reply.usage)
        about = {**about, "requests": n_requests, "replies_from_cache": n_used_again}
        provenance = provenance_of(self._plan, replies, self._checkpoint, **about)
        if precision is not None:
            provenance = msgspec.structs.replace(provenance, prompt_sha256=plan.prompt_sha256)
        result = score(plan, replies, provenance, self._checkpoint, precision)
        return msgspec.structs.replace(result, repeats=repeats)


async def _judge_form(plan: Plan, log: RunLog) -> JudgeForm | None:
    """A resumed run goes on in the form in which it began."""
    if plan.judge_model is None:
        return None
    seen: set[JudgeStamp] = set()
    async for batch in log.read():
        seen.update(stamps(reply for _, reply in batch))
        await asyncio.sleep(0)
    forms = {stamp.form for stamp in seen}
    return forms.pop() if len(forms) == 1 else None
