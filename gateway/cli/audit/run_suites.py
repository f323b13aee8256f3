"""`biasgate audit run`: asks a served model the items of benchmark suites and scores its replies."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from auditors.judge_validation import Validation
from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import directory, qualifications
from benchmarks.run.plan import Plan
from benchmarks.run.result import Result, joined
from benchmarks.run.stopping import in_thread, unless_stopped
from benchmarks.suites.protocol import DataKind, Mode, ProtocolName
from gateway.cli.audit import forecasts, jobs, validations
from gateway.cli.audit.jobs import Job, LeftOut
from gateway.cli.audit.running import END_SECONDS, INTERRUPTED, Manner, finish, run_one, stop_on_signal
from gateway.cli.audit.server_arguments import add_concurrency, add_servers
from gateway.terminal.tables import estimates_table, summary

HELP = """\
Ctrl-C keeps every reply that has arrived; --resume DIR asks only what is missing.

Example:
  biasgate audit run --suite stereoset --model m --base-url http://127.0.0.1:8000 --limit 300 --out runs/first
  biasgate audit run --resume runs/first --base-url http://127.0.0.1:8000
"""

THINKING_HELP = "whether the model thinks before it answers, with at most N tokens (default: as the server has it)"
PRECISION_HELP = "stop once the headline number is known to ±X of its scale, e.g. 0.02 for ±2 of 100 (default: ask all)"
REPEAT_HELP = "ask this share of the items once more, and say what changed, e.g. 0.1 (default: none)"
QUALIFICATION_HELP = "what judge qualify --out wrote about the judge (default: its last result in the user's cache)"
MITIGATION_HELP = "sentence added to every question: a named one, or the text of a UTF-8 file (default none)"


class Groups(NamedTuple):
    """The groups of the options of a run, as help shows them."""

    items: argparse._ArgumentGroup
    data: argparse._ArgumentGroup
    sampling: argparse._ArgumentGroup
    servers: argparse._ArgumentGroup
    judge: argparse._ArgumentGroup
    output: argparse._ArgumentGroup


def add_groups(parser: argparse.ArgumentParser) -> Groups:
    """Add the groups, without options, and return them."""
    titles = ("what is asked", "data", "sampling", "servers and keys", "judge and embedder", "output")
    return Groups(*map(parser.add_argument_group, titles))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    groups = add_groups(parser)
    items, data, sampling, *_ = groups
    items.add_argument("--suite", help='suite names separated by commas, or "all"')
    items.add_argument("--protocol", choices=get_args(ProtocolName), help="default corrected")
    data.add_argument("--data", choices=get_args(DataKind), help="default canonical")
    data.add_argument("--mirror", metavar="DIR_OR_URL", help="fetch canonical data that is not here from a copy")
    data.add_argument("--subset", metavar="NAME", help='ask one part of the data, e.g. "eval" of ltf_test')
    own = "your own axes and tasks (cogs) or templates (ltf_test)"
    items.add_argument("--own", dest="prompts", type=Path, metavar="FILE", help=own)
    items.add_argument("--third-option", dest="prompts", type=Path, metavar="neutral|FILE", help=jobs.THIRD_OPTION_HELP)
    items.add_argument(
        "--evaluate", nargs="+", type=Path, metavar="DIR", help="cogs: evaluate the texts of finished runs instead"
    )
    items.add_argument("--few-shot", type=int, metavar="N", help="default 0")
    sampling.add_argument("--mode", choices=get_args(Mode), help="default sample")
    sampling.add_argument("--samples", type=int, metavar="N", help="replies per item (default 1)")
    sampling.add_argument("--precision", type=float, metavar="X", help=PRECISION_HELP)
    sampling.add_argument("--repeat-share", type=float, metavar="S", help=REPEAT_HELP)
    groups.output.add_argument("--resume", type=Path, metavar="DIR", help="complete a run that was cut off")
    add_asking(groups)


def add_asking(groups: Groups) -> None:
    """Add the options of every run, whatever it asks."""
    items, data, sampling, servers, judge, output = groups
    items.add_argument("--axes", metavar="A[,A...]", help="ask these axes only (default: all)")
    data.add_argument("--limit", type=int, metavar="N", help="ask at most N items, spread over the data")
    items.add_argument("--mitigation", metavar="none|abstract|detailed|FILE", help=MITIGATION_HELP)
    sampling.add_argument("--seed", type=int, metavar="N", help="default 0")
    sampling.add_argument(
        "--temperature", metavar="T[,T...]", help="in place of the protocol's; several make a run each"
    )
    sampling.add_argument("--thinking", metavar="off|on|budget=N|default", help=THINKING_HELP)
    sampling.add_argument("--extra-body", metavar="JSON", help="further fields of every request to the model; they win")
    sampling.add_argument("--keep-reasoning", action="store_true", help="keep the model's thoughts in responses.jsonl")
    servers.add_argument("--model", help="model name as the server knows it")
    add_servers(servers, judge)
    add_concurrency(servers)
    judge.add_argument("--qualification", type=Path, metavar="FILE", help=QUALIFICATION_HELP)
    judge.add_argument("--embedder", metavar="NAME_OR_DIR", help="compares texts by embedding, where that is asked for")
    judge.add_argument("--embedder-base-url", metavar="URL", help="where that model is served (default: loaded here)")
    output.add_argument("--out", type=Path, metavar="DIR", help="run directory (default runs/SUITE-MODEL-TIME)")
    output.add_argument(
        "--dry-run", action="store_true", help="print requests, tokens and minutes of what would be asked; send nothing"
    )
    output.add_argument(
        "--reply-cache",
        action="store_true",
        help="use replies of earlier runs again, at temperature 0 and while the server's fingerprint is the same",
    )
    output.add_argument(
        "--probe-again", action="store_true", help="ask what the server can do even if it was asked earlier today"
    )
    output.add_argument("--quiet", action="store_true", help="print errors only")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    stop = stop_on_signal()
    planning = in_thread(plan_jobs, arguments)
    try:
        planned_jobs, left_out = await unless_stopped(stop, planning, lambda: RunStopped(0, 0), within=0.0)
    except (RunStopped, asyncio.CancelledError):
        print("stopped before anything was asked", file=sys.stderr)
        return INTERRUPTED
    _say_left_out(left_out)
    _say_unused(arguments, planned_jobs)
    if arguments.dry_run:
        await in_thread(forecasts.show, planned_jobs)
        return 0
    code = await run_jobs(planned_jobs, arguments, stop)
    _say_left_out(left_out)
    return code


async def run_jobs(planned_jobs: Sequence[Job], arguments: argparse.Namespace, stop: asyncio.Event) -> int:
    """Run the jobs in turn into their directories. Return 0, or INTERRUPTED after `stop`. Raises BenchmarkError."""
    validation = await in_thread(validations.find, arguments)  # which may open a store, in a loop of its own
    for job in planned_jobs:
        for variable in (job.about.api_key_env, job.about.judge_api_key_env):
            jobs.api_key(variable)
    if not arguments.resume:
        for job in planned_jobs:
            directory.begin(job.path, job.about)
    try:
        return await _run_all(planned_jobs, arguments, stop, validation)
    except BenchmarkError as exc:
        removed = [directory.discard_unanswered(job.path) for job in planned_jobs if not arguments.resume]
        if removed and all(removed):
            raise BenchmarkError(f"{exc.__cause__ or exc}; nothing was answered: mend it and start again") from exc
        raise


def plan_jobs(arguments: argparse.Namespace) -> tuple[list[Job], list[LeftOut]]:
    """Return the runs that the arguments ask for, and the suites of "all" that cannot be run. Raises BenchmarkError."""
    return (jobs.resumed(arguments), []) if arguments.resume else jobs.new(arguments)


def _say_left_out(left_out: Sequence[LeftOut]) -> None:
    for suite, reason in left_out:
        print(f"left out: {reason if reason.startswith(suite) else f'{suite}: {reason}'}", file=sys.stderr)


def _say_unused(arguments: argparse.Namespace, planned_jobs: Sequence[Job]) -> None:
    suites = [job.plan.suite for job in planned_jobs]
    judged, compared = ([s.name for s in suites if s.needs_judge], [s.name for s in suites if s.needs_embedder])
    if (arguments.judge_model or arguments.judge_base_url) and not judged:
        print(f"{', '.join(s.name for s in suites)}: no judge is needed, --judge-model is not used", file=sys.stderr)
    if arguments.embedder and not compared:
        print(f"{', '.join(s.name for s in suites)}: no embedder is needed, --embedder is not used", file=sys.stderr)
    for job in planned_jobs:
        if job.plan.suite.needs_judge and not job.plan.options.judge_model:
            print(f"{job.plan.suite.name}: no --judge-model, so the model judges its own replies", file=sys.stderr)
        judged_at = job.about.judge_base_url or job.about.base_url or ""
        if fault := qualifications.fault_of_plan(job.plan, judged_at, arguments.qualification):
            print(visible_line(fault), file=sys.stderr)
        if job.plan.suite.needs_embedder and not job.plan.options.embedder:
            print(f"{job.plan.suite.name}: no --embedder, so numbers that need one are undefined", file=sys.stderr)
        if arguments.reply_cache and _samples_anew(job.plan):
            print(
                f"{job.plan.suite.name}: --reply-cache is not used: replies are drawn, not at temperature 0",
                file=sys.stderr,
            )


def _samples_anew(plan: Plan) -> bool:
    options = plan.options
    if options.temperature is not None:
        return options.temperature != 0
    return options.mode == "exact" or plan.suite.sampling(options.protocol).temperature != 0


async def _run_all(
    planned_jobs: Sequence[Job], arguments: argparse.Namespace, stop: asyncio.Event, validation: Validation | None
) -> int:
    done: dict[str, Path] = {}
    manner = Manner(
        validation=validation,
        qualification=arguments.qualification,
        has_reply_cache=arguments.reply_cache,
        has_probe_cache=not arguments.probe_again,
        is_quiet=arguments.quiet,
    )
    # A run comes last if it has a score together with another run of the same command.
    for job in sorted(planned_jobs, key=lambda job: job.plan.suite.joint_score is not None):
        try:
            asking = run_one(job, stop, manner, title=job.plan.suite.name, again=_resuming(job.path, arguments))
            result = await unless_stopped(stop, asking, _stopped, within=END_SECONDS)
            done[job.plan.suite.name] = job.path
            result = await unless_stopped(stop, in_thread(_joined, job, result, done), _stopped, within=END_SECONDS)
        except (RunStopped, asyncio.CancelledError) as exc:
            reason = str(exc) if isinstance(exc, RunStopped) and exc.total else "stopped"
            root = arguments.resume or (job.path if len(planned_jobs) == 1 else job.path.parent)
            print(f"{reason}; complete it with: biasgate audit run {_resuming(root, arguments)}", file=sys.stderr)
            return INTERRUPTED
        if not arguments.quiet:
            _show(job.path, result)
    return 0


def _stopped() -> RunStopped:
    return RunStopped(0, 0)


def _joined(job: Job, result: Result, done: Mapping[str, Path]) -> Result:
    """A run gets the score that it has together with a run of another suite in the same command."""
    joint = job.plan.suite.joint_score
    if joint is None or joint.partner not in done:
        return result
    own, partners = directory.observations(job.path), directory.observations(done[joint.partner])
    together = joined(result, joint, own, partners, directory.read_result(done[joint.partner]).dataset.kind)
    finish(job.path, together)
    return together


def _resuming(path: Path, arguments: argparse.Namespace) -> str:
    """The arguments that complete a run: its directory is not asked who to ask."""
    words = ["--resume", str(path)]
    servers = ("base_url", "gateway", "api_key_env", "judge_base_url", "judge_api_key_env", "embedder_base_url")
    for name in (*servers, "judge_validation", "store", "config", "qualification"):
        if value := getattr(arguments, name):
            words += [f"--{name.replace('_', '-')}", jobs.without_password(str(value)) or ""]
    if arguments.reply_cache:
        words.append("--reply-cache")
    if arguments.probe_again:
        words.append("--probe-again")
    return shlex.join(words)


def _show(path: Path, result: Result) -> None:
    tally = ", ".join(f"{name} {count}" for name, count in result.counts.items())
    about = f"{result.suite} {result.suite_version}, {result.protocol} protocol, {result.dataset.name}, {result.model}"
    print(visible_line(about))
    if result.dataset.kind == "embedded":
        print("embedded, not comparable: these numbers must not be compared with published numbers")
    if result.judge_fault:
        print(visible_line(f"judge not validated: {result.judge_fault}"))
    for warning in result.judge_warnings:
        print(visible_line(warning))
    print(tally)
    if left_out := result.dataset.left_out:
        print(f"not asked: {', '.join(f'{reason} {count}' for reason, count in left_out.items())}")
    if used := result.provenance.replies_from_cache:
        print(f"{used} of {result.n_replies} replies are of earlier runs: --reply-cache")
    if result.precision:
        print(result.precision.words)
    if result.repeats:
        print(result.repeats.words)
    for note in filter(None, (result.length_note, result.filter_note)):
        print(visible_line(note))
    if result.thinking_fault:
        print(visible_line(f"no headline number: {result.thinking_fault}"))
    print(f"\n{summary(result)}\n\n{estimates_table(result)}")
    print(f"run directory: {path}")
