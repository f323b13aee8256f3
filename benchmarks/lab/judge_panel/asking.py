"""Puts the replies of finished runs to each judge of a panel, and again in another order where the question has one."""

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

OTHER_SEEDS = 20
"""Seeds tried to find another order of a question; a question that has another order is missed once in a million."""


class Panelled(msgspec.Struct, frozen=True, kw_only=True):
    """One reply that is put to every judge."""

    suite: str
    writer: str
    """The model that wrote it."""
    item: Item
    reply: Reply
    cluster: str


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A judge, and where it is asked."""

    model: str
    url: str


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's reading of each reply, in their order; None where it gave nothing readable."""

    judge: str
    first: list[Reading | None]
    swapped: list[Reading | None] | None
    """Readings in the other order, of all replies; None if the suite's question has no other order."""
    n_failed: int
    """Questions to which its server gave no reply."""


def replies(paths: Sequence[Path], *, n: int | None, seed: int) -> list[Panelled]:
    """Replies of the runs that a judge can be asked about, or `n` of each drawn at random. Raises BenchmarkError for
    what is not a run, has another suite or protocol than the first, or nothing to judge.
    """
    chosen: list[Panelled] = []
    first: RunOptions | None = None
    for path in paths:
        options = directory.read_manifest(path).options
        first = first or options
        if (options.suite, options.protocol, options.seed) != (first.suite, first.protocol, first.seed):
            raise BenchmarkError(f"{path}: runs of one suite, protocol and seed are put to a panel, not of several")
        suite = judged_suite(options.suite)
        eligible = [
            Panelled(
                suite=options.suite,
                writer=options.model,
                item=observation.item,
                reply=fresh,
                cluster=observation.item.cluster,
            )
            for observation in directory.observations(path)
            if (fresh := _fresh(suite, options, observation)) is not None
        ]
        if not eligible:
            raise BenchmarkError(f"{path}: none of its replies is for a judge to read")
        if n is not None and n < len(eligible):
            eligible = random.Random(f"{seed}/panel").sample(eligible, n)
        chosen += eligible
    return chosen


def judged_suite(name: str) -> Suite:
    """Return a suite whose judge says what a person's label can. Raises BenchmarkError for any other."""
    suite = registry.find(name)
    if not (suite.needs_judge and suite.labelling_forms):
        raise BenchmarkError(f"{name}: its replies are read by rules: there is nothing for a panel of judges")
    return suite


def _fresh(suite: Suite, options: RunOptions, observation: Observation) -> Reply | None:
    """The reply as it was before a judge read it; None where no judge is asked."""
    if not observation.reply.text:
        return None
    parsed = suite.parse(observation.item, observation.reply.text, protocol=options.protocol)
    if (
        parsed.status != "ok"
        or _question(suite, options, observation.item, observation.reply.text, options.seed) is None
    ):
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
    """Everything that one judge says of the replies of a run with these options, whose seed orders questions. `on_done`
    hears how many are done. Raises BenchmarkError when its server does not answer the first question.
    """
    suite, client = judged_suite(options.suite), JudgeClient(completer, member.model)
    other_seeds = [_other_seed(suite, options, entry) for entry in panel_replies]
    slots, n_done, n_failed = asyncio.Semaphore(in_flight), 0, 0

    async def one(panelled: Panelled, seed: int) -> Reading | None:
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

    begun = await one(panel_replies[0], options.seed)  # alone: a wrong name or address costs one question
    rest = await asyncio.gather(*(one(panelled, options.seed) for panelled in panel_replies[1:]))
    swapped = None
    if any(seed is not None for seed in other_seeds):
        asked_again = zip(panel_replies, other_seeds, strict=True)
        swapped = await asyncio.gather(*(one(panelled, seed) for panelled, seed in asked_again if seed is not None))
    return Verdicts(judge=member.model, first=[begun, *rest], swapped=swapped, n_failed=n_failed)


async def _ask_judge(suite: Suite, options: RunOptions, panelled: Panelled, client: JudgeClient) -> Reading | None:
    judged = await judge.put_to(suite, options, panelled.item, panelled.reply, client)
    question = suite.labelling_question(
        Observation(panelled.item, judged), form=suite.labelling_forms[0], protocol=options.protocol, seed=options.seed
    )
    return None if question is None else question.judge


def _question(suite: Suite, options: RunOptions, item: Item, text: str | None, seed: int) -> JudgeQuestion | None:
    return suite.judge_question(item, text, protocol=options.protocol, seed=seed)


def _other_seed(suite: Suite, options: RunOptions, panelled: Panelled) -> int | None:
    """One at which the question about a reply comes in another order; None where it is the same at any."""
    text = panelled.reply.text
    usual = _question(suite, options, panelled.item, text, options.seed)
    seeds = range(options.seed + 1, options.seed + 1 + OTHER_SEEDS)
    return next((seed for seed in seeds if _question(suite, options, panelled.item, text, seed) != usual), None)
