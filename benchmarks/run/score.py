"""Makes results from replies: pure, so the same replies give the same numbers, interval ends included."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
import numpy as np

from auditors.text.thinking import is_exhausted, told_apart
from auditors.types import Completion, Estimate, JudgeStamp
from benchmarks.errors import BenchmarkError
from benchmarks.run import judge
from benchmarks.run.completers.served import LONGEST_POLICY, LOWERED, POLICY
from benchmarks.run.estimation import Precision, rank_resamples, with_stars
from benchmarks.run.follow_up import extend_plan, observed
from benchmarks.run.judge import JudgeUsed, judge_used
from benchmarks.run.plan import Key, Plan, RunOptions
from benchmarks.run.result import DatasetUsed, Provenance, Result, counts
from benchmarks.run.thinking import exhausted_reason
from benchmarks.suites.common.accepted_answers import Reading
from benchmarks.suites.common.assessable import Assessment, assess
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.common.observations import never, without_exhausted
from benchmarks.suites.protocol import (
    REFUSAL_FIELD,
    STATUSES,
    UNREAD_LABELS,
    UNRESOLVED,
    Item,
    Observation,
    Reply,
    Suite,
)

MOST_REPLIES = 20_000_000
"""Most items times samples of replies recorded elsewhere: each is looked at, whether it has a reply or not."""
MOST_POLICIES, OTHER_POLICIES = 50, "others"
"""Different statements of a policy that are counted by themselves: a server may send another with each reply."""


def score(
    plan: Plan,
    replies: Mapping[Key, Reply],
    provenance: Provenance,
    checkpoint: Callable[[], None] = never,
    precision: Precision | None = None,
) -> Result:
    """The result of a plan's replies in any order. `checkpoint` may raise. `precision`: where the run stopped early."""
    observations = observed(plan, replies, checkpoint)
    options, suite, tally = plan.options, plan.suite, counts(observations)
    level = LEVEL if precision is None else precision.level_of_a_look
    (assessment, all_cells), estimates = assessed(options, suite, observations), []
    for cell in all_cells:
        checkpoint()
        estimates.append(_estimate(cell, options.seed, level))
    estimates = _without_headline(estimates, suite, tally, options)
    starred, expected_by_chance = with_stars(all_cells, estimates, suite.scales, level=level)
    return Result(
        suite=suite.name,
        suite_version=suite.version,
        **{name: getattr(options, name) for name in OPTIONS_IN_RESULT},
        precision=precision,
        dataset=DatasetUsed(
            name=plan.dataset.name,
            kind=plan.dataset.kind,
            sha256=plan.dataset.sha256,
            n_canonical=plan.dataset.n_canonical,
            n_used=tally["items"],
            left_out=plan.dataset.left_out,
        ),
        counts=tally,
        assessable=assessment.reason is None,
        not_assessable=assessment.reason,
        share_that_names_an_option=assessment.share,
        axes_not_assessable=dict(assessment.axes),
        estimates=starred,
        expected_by_chance=expected_by_chance,
        rank_resamples=[] if suite.rank_rule is None else rank_resamples(suite.rank_rule, all_cells),
        judge=_judge_used(plan, provenance, observations),
        provenance=provenance,
    )


OPTIONS_IN_RESULT = (
    *("protocol", "mode", "model", "mitigation", "few_shot", "seed", "samples", "limit", "subset", "axes"),
    *("temperature", "thinking", "extra_body", "embedder", "evaluate"),
)


def headline(
    plan: Plan, replies: Mapping[Key, Reply], level: float, checkpoint: Callable[[], None] = never
) -> list[Estimate]:
    """The headline number alone, with an interval of that level; empty where the run has none."""
    observations = observed(plan, replies, checkpoint)
    headline_cells = [cell for cell in cells(plan.options, plan.suite, observations) if cell.key == plan.suite.headline]
    estimates = [_estimate(cell, plan.options.seed, level) for cell in headline_cells]
    return _without_headline(estimates, plan.suite, counts(observations), plan.options)


LEVEL = 0.95


def _estimate(cell: Cell, seed: int, level: float) -> Estimate:
    """Return the estimate with an interval of `level`, which holds with LEVEL if several looks were taken."""
    estimated = estimate(cell, seed=seed, confidence_level=level)
    if level == LEVEL:
        return estimated
    method = None if estimated.method is None else f"repeated {estimated.method}"
    return msgspec.structs.replace(estimated, confidence_level=LEVEL, method=method)


def _without_headline(
    estimates: Sequence[Estimate], suite: Suite, tally: Mapping[str, int], options: RunOptions
) -> list[Estimate]:
    """The estimates; those of the headline's metric undefined where too many replies ran out of tokens in thought."""
    n_replies = sum(tally[status] for status in STATUSES)
    reason = exhausted_reason(tally["thinking_exhausted"], n_replies, options.thinking)
    if reason is None:
        return list(estimates)
    undefined = {"value": None, "lower": None, "upper": None, "method": None, "reason": reason}
    return [
        msgspec.structs.replace(estimate, **undefined) if estimate.metric == suite.headline.metric else estimate
        for estimate in estimates
    ]


def _judge_used(plan: Plan, provenance: Provenance, observations: Sequence[Observation]) -> JudgeUsed | None:
    if plan.judge_model is None:
        return None
    models = {stamp.model for stamp in provenance.judge} or {plan.judge_model}
    used = judge_used(sorted(models), plan.options.model, provenance.judge, provenance.judge_validation)
    return judge.with_counts(used, (observation.reply for observation in observations))


def cells(options: RunOptions, suite: Suite, observations: Sequence[Observation]) -> list[Cell]:
    """Return the cells that the suite forms from the observations, with those that are not assessable marked."""
    return assessed(options, suite, observations)[1]


def assessed(options: RunOptions, suite: Suite, observations: Sequence[Observation]) -> tuple[Assessment, list[Cell]]:
    """Return the verdict on the run, and its cells."""
    formed = _cells(options, suite, observations)
    assessment = assess(suite, observations, formed, judge.model_status, mode=options.mode, seed=options.seed)
    reasons = map(assessment.reason_of, formed)
    return assessment, [
        cell if reason is None else msgspec.structs.replace(cell, not_assessable=reason)
        for cell, reason in zip(formed, reasons, strict=True)
    ]


def _cells(options: RunOptions, suite: Suite, observations: Sequence[Observation]) -> list[Cell]:
    """The suite's cells; in mode exact without what it cannot tell, with the mean unread probability, a bound."""
    suite_cells = suite.cells(without_exhausted(observations), protocol=options.protocol)
    if options.mode != "exact":
        return suite_cells
    unresolved = [
        o.reply.choice_probabilities.get(UNRESOLVED, 0.0) for o in observations if o.reply.choice_probabilities
    ]
    unresolved_extra = {"mean_unresolved": sum(unresolved) / len(unresolved) if unresolved else None}
    read = [_unread(cell) if cell.metric in UNREAD_IN_EXACT else cell for cell in suite_cells]
    return [msgspec.structs.replace(cell, is_exact=True, extra={**cell.extra, **unresolved_extra}) for cell in read]


UNREAD_IN_EXACT = frozenset({"refusal_rate"})
"""Metrics that need the words of a reply, not only which answer it is."""


def _unread(cell: Cell) -> Cell:
    return msgspec.structs.replace(
        cell,
        sums=np.zeros((0, cell.sums.shape[1])),
        clusters=(),
        n=0,
        counted=None,
        undefined="mode exact does not tell refusals from other unrelated replies",
    )


def read_reply(plan: Plan, item: Item, reply: Reply) -> Reply:
    """The reply read again from text and judgement, or probabilities (BenchmarkError if impossible), if it has any."""
    if plan.options.mode == "exact":
        return _read_probabilities(plan, item, reply)
    if reply.text is None or reply.rule == REFUSAL_FIELD:
        return reply
    answer = told_apart(Completion(text=reply.text, finish_reason=reply.finish_reason, reasoning=reply.reasoning))
    if is_exhausted(answer):
        return msgspec.structs.replace(
            reply, text=None, status="thinking_exhausted", parsed=None, rule=None, error=None
        )
    reply = msgspec.structs.replace(reply, text=answer.text)
    parsed = plan.suite.parse(item, reply.text, protocol=plan.options.protocol)
    fresh = msgspec.structs.replace(reply, status=parsed.status, parsed=parsed.value, rule=parsed.rule, error=None)
    return judge.reread(plan, item, fresh)


def _read_probabilities(plan: Plan, item: Item, reply: Reply) -> Reply:
    by_label = reply.choice_probabilities
    if by_label is None:
        return msgspec.structs.replace(reply, status="error", error="no choice_probabilities")
    labels = Reading(plan.suite, item, plan.options.protocol).labels | UNREAD_LABELS
    if strange := sorted(by_label.keys() - labels):
        raise BenchmarkError(f'{item.item_id}: "{strange[0]}" is not one of the labels {", ".join(sorted(labels))}')
    if not all(0 <= p <= 1 for p in by_label.values()) or abs(sum(by_label.values()) - 1) > TOLERANCE:
        raise BenchmarkError(
            f"{item.item_id}: choice_probabilities must be in [0, 1] and add up to 1, not to {sum(by_label.values()):g}"
        )
    return msgspec.structs.replace(reply, status="ok", parsed=None, rule=None, error=None)


TOLERANCE = 1e-3
"""Largest distance of the sum of recorded probabilities from 1: room for rounding."""


def score_recorded(plan: Plan, recorded: Sequence[Reply], *, where: str) -> tuple[Result, list[Reply]]:
    """Score replies recorded elsewhere (`read_recorded`); returns the result, and replies as read, in item order."""
    complete, replies = read_recorded(plan, recorded, where=where)
    return score(complete, replies, provenance_of(plan, replies)), list(replies.values())


def read_recorded(plan: Plan, recorded: Sequence[Reply], *, where: str) -> tuple[Plan, dict[Key, Reply]]:
    """Read replies recorded elsewhere (same protocol and seed; item_id, text and judge, or choice_probabilities), in
    any order, the latest of an (item_id, sample). Returns the plan with the items they gave rise to, and replies in
    item order. Raises BenchmarkError for an unknown item, or impossible probabilities.
    """
    if plan.total > MOST_REPLIES:
        raise BenchmarkError(
            f"{where}: {plan.options.samples} samples of {len(plan.items)} items are more than {MOST_REPLIES} replies: "
            "number the samples of an item from 0"
        )
    latest = {(reply.item_id, reply.sample): reply for reply in recorded}
    complete = extend_plan(plan, _read_all(plan, latest))
    items = {item.item_id for item in complete.items}
    strangers = sorted({reply.item_id for reply in recorded} - items)
    if strangers:
        raise BenchmarkError(
            f"{where}: {len(strangers)} item ids are not of {plan.suite.name} {plan.suite.version} "
            f'({plan.dataset.kind} data), e.g. "{strangers[0]}": use the data and version they were made with'
        )
    return complete, _read_all(complete, latest)


TOKENS = ("prompt_tokens", "completion_tokens")


def provenance_of(
    plan: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None] = never, **about: Any
) -> Provenance:
    """Return the provenance of the replies of a plan; `about` is what the replies do not say themselves."""
    fingerprints, judges, n_cut, limits = set[str](), set[JudgeStamp](), 0, list[int]()
    tokens, policies, n_filtered = Counter[str](), Counter[str](), 0
    for reply in replies.values():
        checkpoint()
        fingerprints.update([reply.fingerprint] if reply.fingerprint else [])
        judges.update(judge.stamps([reply]))
        tokens.update({name: n for name in TOKENS if isinstance(n := (reply.usage or {}).get(name), int)})
        n_cut += reply.finish_reason == "length"
        n_filtered += reply.is_filtered
        if policy := str((reply.usage or {}).get(POLICY) or "")[:LONGEST_POLICY]:
            policies[policy if policy in policies or len(policies) < MOST_POLICIES else OTHER_POLICIES] += 1
        if limit := (reply.usage or {}).get(LOWERED):
            limits.append(limit)
    return Provenance(
        biasgate=version("biasgate"),
        fingerprints=sorted(fingerprints),
        judge=judge.in_order(judges),
        prompt_sha256=plan.prompt_sha256,
        prompt_tokens=tokens["prompt_tokens"],
        reply_tokens=tokens["completion_tokens"],
        replies_cut=n_cut,
        replies_lowered=len(limits),
        least_tokens=min(limits, default=None),
        refused_by_filter=n_filtered,
        policies=dict(sorted(policies.items())),
        **about,
    )


def _read_all(plan: Plan, latest: Mapping[Key, Reply]) -> dict[Key, Reply]:
    keys = ((item, (item.item_id, sample)) for item in plan.items for sample in range(plan.options.samples))
    return {key: read_reply(plan, item, latest[key]) for item, key in keys if key in latest}
