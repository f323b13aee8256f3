"""Runs one suite: prepares the items, asks the model, scores the replies."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from auditors.clients.judge_client import JudgeClient
from auditors.types import Completer, Embedder, JudgeStamp
from benchmarks.errors import RunStopped
from benchmarks.run.ask import AUTO_CONCURRENCY, Progress, ask
from benchmarks.run.follow_up import embedded_parts, extend_plan
from benchmarks.run.judge import stamps
from benchmarks.run.log import RunLog
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.replies import Replies
from benchmarks.run.result import Result
from benchmarks.run.score import provenance_of, score
from benchmarks.run.stopping import checkpoint_of, in_thread, unless_stopped

__all__ = [
    "AUTO_CONCURRENCY",
    "Plan",
    "Progress",
    "Result",
    "RunLog",
    "RunOptions",
    "ask",
    "prepare",
    "run",
    "run_plan",
    "score",
]


async def run(
    options: RunOptions,
    *,
    completer: Completer,
    log: RunLog,
    judge: Completer | None = None,
    embedder: Embedder | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    base_url_host: str | None = None,
    data_dir: Path | None = None,
) -> Result:
    """Prepares, asks what the log does not have yet, and scores.

    Args:
        options: what to run.
        completer: asks the model; the caller closes it.
        log: see `RunLog`; replies with status error are asked again.
        judge: asks `options.judge_model`; None asks the server of the model under test.
        embedder: for suites that compare texts; None leaves those numbers undefined.
        on_progress: called after every batch kept, at least once.
        stop: when set, no further item is asked, and RunStopped is raised within a second, whatever the run is at;
            replies that arrive within stopping.GRACE_SECONDS are kept.
        base_url_host: for the provenance.
        data_dir: dataset cache.

    Raises: BenchmarkError, DatasetError, RunStopped.
    """
    stop = stop or asyncio.Event()
    preparing = in_thread(prepare, options, data_dir, checkpoint=checkpoint_of(stop, _not_begun))
    plan = await unless_stopped(stop, preparing, _not_begun)
    return await run_plan(
        plan,
        completer=completer,
        log=log,
        judge=judge,
        embedder=embedder,
        on_progress=on_progress,
        stop=stop,
        base_url_host=base_url_host,
    )


async def run_plan(
    plan: Plan,
    *,
    completer: Completer,
    log: RunLog,
    judge: Completer | None = None,
    embedder: Embedder | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    base_url_host: str | None = None,
) -> Result:
    """As `run`, for a plan already made."""
    stop = stop or asyncio.Event()
    n_done = 0

    def note(progress: Progress) -> None:
        nonlocal n_done
        n_done = progress.done
        if on_progress is not None:
            on_progress(progress)

    def stopped() -> RunStopped:
        return RunStopped(n_done, plan.total)

    running = _Run(plan, completer, log, judge or completer, embedder, note, stop, checkpoint_of(stop, stopped))
    return await unless_stopped(stop, running.result(base_url_host), stopped)


def _not_begun() -> RunStopped:
    return RunStopped(0, 0)


class _Run:
    """One run from its first question to its result."""

    def __init__(
        self,
        plan: Plan,
        completer: Completer,
        log: RunLog,
        judge: Completer,
        embedder: Embedder | None,
        on_progress: Callable[[Progress], None],
        stop: asyncio.Event,
        checkpoint: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._completer = completer
        self._log = log
        self._judge = judge
        self._embedder = embedder
        self._on_progress = on_progress
        self._stop = stop
        self._checkpoint = checkpoint

    async def result(self, base_url_host: str | None) -> Result:
        started, clock = datetime.now(UTC), time.perf_counter()
        replies = await self._asked(self._plan)
        complete = await in_thread(extend_plan, self._plan, replies, self._checkpoint)
        if complete is not self._plan:
            await self._log.keep_items(complete.items)
            replies = await self._asked(complete)
        is_embedded = await self._embedded(complete, replies)
        about = {
            "base_url_host": base_url_host,
            "embedder": self._embedder.name if is_embedded and self._embedder is not None else None,
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 3),
        }
        return await in_thread(self._scored, complete, replies, about)

    async def _asked(self, plan: Plan) -> Replies:
        client = await _judge_client(plan, self._judge, self._log)
        return await ask(
            plan,
            completer=self._completer,
            log=self._log,
            judge=client,
            on_progress=self._on_progress,
            stop=self._stop,
        )

    async def _embedded(self, plan: Plan, replies: Replies) -> bool:
        """Keeps the replies that their vectors change; whether there are any."""
        is_changed = False
        async for changed in embedded_parts(plan, replies, self._embedder):
            for reply, place in zip(changed, await self._log.append(changed), strict=True):
                replies.put(reply, place)
            is_changed = is_changed or bool(changed)
        return is_changed

    def _scored(self, plan: Plan, replies: Replies, about: dict[str, Any]) -> Result:
        n_requests = 0
        for reply in replies.values():
            self._checkpoint()
            n_requests += (reply.usage or {}).get("requests", 1)
        provenance = provenance_of(self._plan, replies, self._checkpoint, requests=n_requests, **about)
        return score(plan, replies, provenance, self._checkpoint)


async def _judge_client(plan: Plan, completer: Completer, log: RunLog) -> JudgeClient | None:
    """The judge of a plan; a resumed run goes on in the form in which it began."""
    if plan.judge_model is None:
        return None
    seen: set[JudgeStamp] = set()
    async for batch in log.read():
        seen.update(stamps(reply for _, reply in batch))
        await asyncio.sleep(0)
    forms = {stamp.form for stamp in seen}
    return JudgeClient(completer, plan.judge_model, form=forms.pop() if len(forms) == 1 else None)
