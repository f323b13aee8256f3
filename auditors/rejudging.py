"""Puts replies of a reference set to a judge."""

from auditors.clients.judge_client import JudgeClient
from auditors.judge import judge_question, parse_verdict
from auditors.judge_reference import ReferenceItem, Scored, measurements, scored
from auditors.text.fencing import mark
from auditors.types import JudgeStamp, Measurement


async def judged(
    prompt: str, reply: str, judge: JudgeClient, max_tokens: int
) -> tuple[Scored | None, JudgeStamp, str | None]:
    """What the judge says of a reply, None with the reason where no verdict can be read. Raises CompletionError."""
    found = await judge.ask(lambda: judge_question(prompt, reply, mark(), max_tokens), parse_verdict)
    return None if found.value is None else scored(found.value), found.stamp, found.reason


async def judged_again(item: ReferenceItem, judge: JudgeClient, max_tokens: int) -> list[Measurement]:
    """Raises CompletionError when the judge's server gives no reply, which says nothing about the judge."""
    found, stamp, reason = await judged(item.prompt, item.reply, judge, max_tokens)
    return measurements(item, found, stamp, reason)
