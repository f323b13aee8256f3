"""The judge's part of a run: puts a reply to the judge, and reads recorded judgements again."""

from collections.abc import Iterable
from typing import Any

import msgspec

from auditors.clients.judge_client import JudgeClient, UnreadableError
from auditors.types import CompletionError, JudgeStamp
from benchmarks.run.plan import Plan, RunOptions
from benchmarks.suites.protocol import (
    JUDGE_FAILED,
    Item,
    Reply,
    Suite,
)

NOT_JUDGED = "no judgement"
"""Beginning of the error of a reply that no judge has read."""


async def judge(plan: Plan, item: Item, reply: Reply, client: JudgeClient) -> Reply:
    """The reply with the judge's reading of it.

    Unchanged when the suite has no question about it; with status "malformed" and rule JUDGE_FAILED when no reply of
    the judge could be read.

    Raises: CompletionError when the judge's server gives no reply.
    """
    return await put_to(plan.suite, plan.options, item, reply, client)


async def put_to(suite: Suite, options: RunOptions, item: Item, reply: Reply, client: JudgeClient) -> Reply:
    """`judge`, of a run that need not be planned."""
    if reply.status != "ok" or not suite.needs_judge:
        return reply
    question = suite.judge_question(item, reply.text, protocol=options.protocol, seed=options.seed)
    if question is None:
        return reply
    judgement = await client.ask(
        lambda: question,
        lambda text: suite.read_judgement(item, text, protocol=options.protocol, seed=options.seed),
    )
    record = _record(judgement.stamp, judgement.text)
    if judgement.value is None:
        return msgspec.structs.replace(reply, status="malformed", parsed=None, rule=JUDGE_FAILED, judge=record)
    parsed = judgement.value
    return msgspec.structs.replace(reply, status=parsed.status, parsed=parsed.value, rule=parsed.rule, judge=record)


def unjudged(reply: Reply, error: CompletionError) -> Reply:
    """The reply kept for a later try: the text need not be asked for again."""
    return msgspec.structs.replace(
        reply, status="error", parsed=None, rule=None, error=f"{NOT_JUDGED}: {error.kind}: {error}"
    )


def reread(plan: Plan, item: Item, reply: Reply) -> Reply:
    """A reply that `parse` called ok, read by its recorded judgement; an error when there is none."""
    suite, options = plan.suite, plan.options
    if reply.status != "ok" or not suite.needs_judge:
        return reply
    if suite.judge_question(item, reply.text, protocol=options.protocol, seed=options.seed) is None:
        return reply
    text = (reply.judge or {}).get("text")
    if reply.judge is None:
        return msgspec.structs.replace(reply, status="error", parsed=None, rule=None, error=f"{NOT_JUDGED} is recorded")
    try:
        parsed = suite.read_judgement(item, text, protocol=options.protocol, seed=options.seed)
    except UnreadableError:
        return msgspec.structs.replace(reply, status="malformed", parsed=None, rule=JUDGE_FAILED)
    return msgspec.structs.replace(reply, status=parsed.status, parsed=parsed.value, rule=parsed.rule)


def stamps(replies: Iterable[Reply]) -> list[JudgeStamp]:
    """Who judged: one stamp for all that is the same but the number of attempts."""
    found = {
        JudgeStamp(
            model=one["model"],
            prompt_sha256=one["prompt_sha256"],
            form=one["form"],
            thinking=one.get("thinking"),
            fingerprint=one.get("fingerprint"),
        )
        for reply in replies
        if (one := reply.judge) and {"model", "prompt_sha256", "form"} <= one.keys()
    }
    return in_order(found)


def in_order(stamps: Iterable[JudgeStamp]) -> list[JudgeStamp]:
    return sorted(stamps, key=_order)


def _order(stamp: JudgeStamp) -> tuple[str, ...]:
    return stamp.model, stamp.prompt_sha256, stamp.form, stamp.thinking or "", stamp.fingerprint or ""


def _record(stamp: JudgeStamp, text: str | None) -> dict[str, Any]:
    return {**msgspec.structs.asdict(stamp), "text": text}
