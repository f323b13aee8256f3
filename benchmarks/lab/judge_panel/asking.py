"""Asks each judge of a panel about the replies of finished runs, a second time in another order if there is one."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeClient, JudgeQuestion
from auditors.labelling.forms import Reading
from auditors.types import Completer, CompletionError
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory, judge
from benchmarks.run.plan import RunOptions
from benchmarks.suites import registry
from benchmarks.suites.protocol import Item, Observation, Reply, Suite

N_OTHER_SEEDS = 20
"""Seeds tried to find another order of a question; a question that has two orders is missed once in a million."""


class Panelled(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that every judge is asked about."""

    writer: str
    item: Item
    reply: Reply
    cluster: str


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A judge and its server."""

    model: str
    url: str


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's readings of all replies, in order; None for an unreadable verdict."""

    judge: str
    first: list[Reading | None]
    swapped: list[Reading | None] | None
    """Readings of all replies with the question in another order; None if the question has no other order."""
    n_failed: int
    """Questions that its server did not answer."""


def replies(paths: Sequence[Path], *, n: int | None, seed: int) -> list[Panelled]:
    """Replies that a judge can read, `n` of each run at random. BenchmarkError: no run, none, or runs that differ."""
    chosen: list[Panelled] = []
    first: RunOptions | None = None
    for path in paths:
        options = directory.read_manifest(path).options
        first = first or options
        if (options.suite, options.protocol, options.seed) != (first.suite, first.protocol, first.seed):
            raise BenchmarkError(f"{path}: all runs of a panel need the same suite, protocol and seed")
        suite = judged_suite(options.suite)
        eligible = [
            Panelled(writer=options.model, item=entry.item, reply=unjudged, cluster=entry.item.cluster)
            for entry in directory.observations(path)
            if (unjudged := _unjudged(suite, options, entry)) is not None
        ]
        if not eligible:
            raise BenchmarkError(f"{path}: it has no reply that a judge reads")
        if n is not None and n < len(eligible):
            eligible = random.Random(f"{seed}/panel").sample(eligible, n)
        chosen += eligible
    return chosen


def judged_suite(name: str) -> Suite:
    """Return a suite whose judge and raters fill in the same form. BenchmarkError for one that no judge reads."""
    suite = registry.find(name)
    if not (suite.needs_judge and suite.labelling_forms):
        raise BenchmarkError(f"{name}: its replies are read by rules, not by judges")
    return suite


def _unjudged(suite: Suite, options: RunOptions, observation: Observation) -> Reply | None:
    """Return the reply without its judge's reading; None if no judge is asked about it."""
    if not observation.reply.text:
        return None
    item, text = observation.item, observation.reply.text
    is_ok = suite.parse(item, text, protocol=options.protocol).status == "ok"
    if not is_ok or suite.judge_question(item, text, protocol=options.protocol, seed=options.seed) is None:
        return None
    return msgspec.structs.replace(observation.reply, status="ok", parsed=None, rule=None, judge=None, error=None)


async def ask(
    panel_replies: Sequence[Panelled],
    options: RunOptions,
    member: Member,
    completer: Completer,
    *,
    in_flight: int,
    on_done: Callable[[int], None] = lambda _: None,
) -> Verdicts:
    """Return all readings of a judge. `panel_replies`: at least one, of a run with these `options`, whose seed orders
    the questions. The caller closes `completer`. `in_flight`: most questions at the same time; `on_done` receives the
    number answered. Raises BenchmarkError when the server does not answer the first question.
    """
    suite, client = judged_suite(options.suite), JudgeClient(completer, member.model)
    other_seeds = [_other_seed(suite, options, entry) for entry in panel_replies]
    slots, n_done, n_failed = asyncio.Semaphore(in_flight), 0, 0

    async def ask_about(panelled: Panelled, seed: int) -> Reading | None:
        nonlocal n_done, n_failed
        async with slots:
            try:
                reading = await _ask_judge(suite, msgspec.structs.replace(options, seed=seed), panelled, client)
            except CompletionError as exc:
                if not n_done:
                    raise BenchmarkError(f'the judge "{member.model}" at {member.url} does not answer: {exc}') from exc
                reading, n_failed = None, n_failed + 1
        n_done += 1
        on_done(n_done)
        return reading

    first = await ask_about(panel_replies[0], options.seed)  # alone: a wrong name or address costs one question
    rest = await asyncio.gather(*(ask_about(panelled, options.seed) for panelled in panel_replies[1:]))
    swapped = None
    if any(seed is not None for seed in other_seeds):
        pairs = zip(panel_replies, other_seeds, strict=True)
        swapped = await asyncio.gather(*(ask_about(panelled, seed) for panelled, seed in pairs if seed is not None))
    return Verdicts(judge=member.model, first=[first, *rest], swapped=swapped, n_failed=n_failed)


async def _ask_judge(suite: Suite, options: RunOptions, panelled: Panelled, client: JudgeClient) -> Reading | None:
    judged = await judge.put_to(suite, options, panelled.item, panelled.reply, client)
    question = suite.labelling_question(
        Observation(panelled.item, judged), form=suite.labelling_forms[0], protocol=options.protocol, seed=options.seed
    )
    return None if question is None else question.judge


def _other_seed(suite: Suite, options: RunOptions, panelled: Panelled) -> int | None:
    """Return a seed that gives the question about a reply another order; None if all seeds give the same order."""

    def question(seed: int) -> JudgeQuestion | None:
        return suite.judge_question(panelled.item, panelled.reply.text, protocol=options.protocol, seed=seed)

    usual_question, seeds = question(options.seed), range(options.seed + 1, options.seed + 1 + N_OTHER_SEEDS)
    return next((seed for seed in seeds if question(seed) != usual_question), None)
