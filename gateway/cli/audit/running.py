"""Runs one suite into its run directory, with the servers that it needs; a signal stops it and loses nothing."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from auditors.judge_validation import Validation
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.reporting import report
from benchmarks.run import directory, qualifications
from benchmarks.run.result import Addresses, Result
from benchmarks.run.runner import run_plan
from benchmarks.run.stopping import LIMIT_SECONDS, in_thread
from benchmarks.run.thinking import ThinkingFound
from gateway.cli.audit.jobs import Job
from gateway.cli.audit.servers import opened
from gateway.terminal.progress import ProgressLine

INTERRUPTED = 130
END_SECONDS = LIMIT_SECONDS + 0.1
"""Seconds that a stopped task may take to end."""


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of how a run is asked, apart from its questions."""

    validation: Validation | None = None
    qualification: Path | None = None
    """File of --qualification."""
    has_reply_cache: bool = False
    has_probe_cache: bool = True
    is_quiet: bool = False


async def run_one(job: Job, stop: asyncio.Event, manner: Manner, *, title: str, again: str) -> Result:
    """Finish a begun job; `stop` ends it in a second. `again`: command to go on. Raises BenchmarkError, RunStopped."""
    path, plan, about = job
    await in_thread(directory.complete_items, path, plan)
    log = directory.DirectoryLog(path)
    probed: list[ThinkingFound] = []

    def note_probe(probe: ThinkingFound) -> None:
        probed.append(probe)
        if not manner.is_quiet:
            print(f"{title}: {probe.words}", file=sys.stderr)

    line = ProgressLine(title, sys.stderr, quiet=manner.is_quiet)
    try:
        replies_before = directory.began(path) if manner.has_reply_cache else None
        async with opened(
            *(plan, about, stop, lambda: RunStopped(line.done, plan.total)),
            replies_before=replies_before,
            has_probe_cache=manner.has_probe_cache,
        ) as servers:
            options = msgspec.structs.replace(plan.options, concurrency=servers.in_flight)
            result = await run_plan(
                msgspec.structs.replace(plan, options=options),
                completer=servers.completer,
                log=log,
                judge=servers.judge,
                judge_validation=manner.validation,
                embedder=servers.embedder,
                on_progress=line,
                on_thinking=note_probe,
                stop=stop,
                addresses=Addresses(**{name: getattr(about, name) for name in Addresses.__struct_fields__}),
            )
    except BenchmarkError as exc:
        raise BenchmarkError(f"{exc}; what was answered is kept: mend it, then {again}") from exc
    finally:
        line.close()
        log.close()
    judged_at = about.judge_base_url or about.base_url or ""
    result = await in_thread(qualifications.with_qualification, result, judged_at, manner.qualification)
    if not probed:
        result = await in_thread(_with_earlier_times, path, result)
    await in_thread(finish, path, result)
    return result


def finish(path: Path, result: Result) -> None:
    directory.finish(path, result, report.render([result]))


def _with_earlier_times(path: Path, result: Result) -> Result:
    """Takes times, requests and thinking from the earlier result, for a run whose replies were all there already."""
    if not (path / directory.RESULT).exists():
        return result
    before = directory.read_result(path).provenance
    names = ("started", "finished", "seconds", "requests", "thinking", "server_defaults", "judge_defaults")
    earlier = {name: getattr(before, name) for name in names}
    return msgspec.structs.replace(result, provenance=msgspec.structs.replace(result.provenance, **earlier))


def stop_on_signal() -> asyncio.Event:
    """The first Ctrl-C lets replies in flight arrive for a moment; the second gives them up. None is lost."""
    stop = asyncio.Event()
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    return stop
