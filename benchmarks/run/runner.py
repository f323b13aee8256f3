"""Runs one suite: prepares the items, asks the model, scores the replies."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from auditors.clients.judge_client import JudgeClient
from auditors.types import Completer, Embedder
from benchmarks.run.ask import AUTO_CONCURRENCY, Progress, RunLog, ask
from benchmarks.run.follow_up import embedded, extend_plan
from benchmarks.run.judge import stamps
from benchmarks.run.plan import Key, Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.score import provenance_of, score
from benchmarks.suites.protocol import Reply

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
        stop: when set, no further item is asked, replies in flight are kept, RunStopped is raised.
        base_url_host: for the provenance.
        data_dir: dataset cache.

    Raises: BenchmarkError, DatasetError, RunStopped.
    """
    plan = await asyncio.to_thread(prepare, options, data_dir)
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
    started, clock = datetime.now(UTC), time.perf_counter()

    async def asked(plan: Plan) -> dict[Key, Reply]:
        client = await _judge_client(plan, judge or completer, log)
        return await ask(plan, completer=completer, log=log, judge=client, on_progress=on_progress, stop=stop)

    replies = await asked(plan)
    complete = await asyncio.to_thread(extend_plan, plan, replies)
    if complete is not plan:
        await log.keep_items(complete.items)
        replies = await asked(complete)
    changed = await embedded(complete, replies, embedder)
    await log.append(changed)
    replies |= {(reply.item_id, reply.sample): reply for reply in changed}
    provenance = provenance_of(
        plan,
        replies,
        base_url_host=base_url_host,
        embedder=embedder.name if changed and embedder is not None else None,
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        requests=sum((reply.usage or {}).get("requests", 1) for reply in replies.values()),
        seconds=round(time.perf_counter() - clock, 3),
    )
    return await asyncio.to_thread(score, complete, replies, provenance)


async def _judge_client(plan: Plan, completer: Completer, log: RunLog) -> JudgeClient | None:
    """The judge of a plan; a resumed run goes on in the form in which it began."""
    if plan.judge_model is None:
        return None
    forms = {stamp.form for stamp in stamps(await log.existing())}
    return JudgeClient(completer, plan.judge_model, form=forms.pop() if len(forms) == 1 else None)
