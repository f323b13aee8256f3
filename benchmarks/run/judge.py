"""The judge's part of a run: puts a reply to the judge, reads recorded judgements again, looks for a validation by
people (`biasgate judge calibrate --out`): until then a score is as much about the judge (protocols 2.11).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeClient, UnreadableError
from auditors.judge_validation import Validation, decoded
from auditors.text.refusal_words import declines
from auditors.text.reply_object import NoObjectError, read_reply_object
from auditors.text.user_files import read_utf8
from auditors.types import CompletionError, JudgeStamp, Status
from benchmarks.errors import BenchmarkError
from benchmarks.run.plan import Plan, RunOptions
from benchmarks.suites.protocol import JUDGE_FAILED, REFUSAL_CONFLICT, Item, Reply, Suite

NOT_JUDGED = "no judgement"
"""Beginning of the error of a reply that no judge has read."""


async def put_to(suite: Suite, options: RunOptions, item: Item, reply: Reply, client: JudgeClient) -> Reply:
    """The reply judged; unchanged without a question, "malformed" if unreadable. CompletionError: no answer."""
    if reply.status != "ok" or not suite.needs_judge:
        return reply
    question = suite.judge_question(item, reply.text, protocol=options.protocol, seed=options.seed)
    if question is None:
        return reply
    judgement = await client.ask(
        lambda: question, lambda text: suite.read_judgement(item, text, protocol=options.protocol, seed=options.seed)
    )
    record = {**msgspec.structs.asdict(judgement.stamp), "text": judgement.text}
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
    """Return the judges of the replies: a stamp for all that is the same but for the number of attempts."""
    distinct_stamps = {
        JudgeStamp(
            model=fields["model"],
            prompt_sha256=fields["prompt_sha256"],
            form=fields["form"],
            thinking=fields.get("thinking"),
            fingerprint=fields.get("fingerprint"),
        )
        for reply in replies
        if (fields := reply.judge) and {"model", "prompt_sha256", "form"} <= fields.keys()
    }
    return in_order(distinct_stamps)


def in_order(stamps: Iterable[JudgeStamp]) -> list[JudgeStamp]:
    return sorted(
        stamps,
        key=lambda stamp: (stamp.model, stamp.prompt_sha256, stamp.form, stamp.thinking or "", stamp.fingerprint or ""),
    )


# The judge's comparison with people.


NOT_GIVEN = "it was not compared with people (--judge-validation)"
ITSELF = "the model judges itself"


class JudgeUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The judge of a run: one entry `judge` of result.json (contract 2)."""

    model: str
    validated: bool
    reason: str | None = None
    counts: Mapping[str, int] = {}
    """Replies put to it, by verdict: ok, refusal; declined or malformed if it gave none, error if no answer came."""
    constant: bool = False
    """All its verdicts are one, and there are LEAST_CONSTANT or more."""
    constant_verdict: str | None = None
    contradictions: Mapping[str, int] = {}
    """Verdicts of refusal that contradict themselves or the reply: choice, no refusal words."""

    qualified: bool | None = None
    """A qualification says that it is good enough for the suite; None where none was looked for."""
    warnings: tuple[str, ...] = ()
    """Sentences about what keeps it from judging: its failures are not the model's."""


LEAST_CONSTANT = 10
"""Fewest verdicts that are called one: a few alike are no surprise."""
FAILED = ("declined", "malformed", "error")
CHOICE, NO_WORDS = "choice", "no_refusal_words"
CONTRADICTIONS = {CHOICE: "and yet said whom they choose or favour", NO_WORDS: "that have no words of refusal"}
_CHOICE_RULES = frozenset({REFUSAL_CONFLICT, "rta_conflict"})


def judge_used(
    judges: Sequence[str], model: str, stamps: Sequence[JudgeStamp], validation: Validation | None
) -> JudgeUsed:
    """`stamps`: every question that a judge was asked. `validation`: of the judge, if there is one."""
    reason = _fault(judges, model, stamps, validation)
    return JudgeUsed(model=", ".join(judges), validated=reason is None, reason=reason)


def with_counts(used: JudgeUsed, replies: Iterable[Reply]) -> JudgeUsed:
    """Return the judge with what its verdicts on these replies show about it."""
    counts, contradictions, verdicts = Counter[str](), Counter[str](), set[str]()
    for reply in replies:
        if (outcome := _outcome(reply)) is None:
            continue
        counts[outcome] += 1
        if outcome not in FAILED and len(verdicts) < 2:
            verdicts.add(_verdict_of(reply))
        if outcome == "refusal":
            contradictions[CHOICE] += not _CHOICE_RULES.isdisjoint((reply.rule or "").split(";"))
            contradictions[NO_WORDS] += not declines(reply.text or "")
    is_constant = len(verdicts) == 1 and counts["ok"] + counts["refusal"] >= LEAST_CONSTANT
    used = msgspec.structs.replace(
        used,
        counts=dict(counts),
        constant=is_constant,
        constant_verdict=verdicts.pop() if is_constant else None,
        contradictions={name: n for name, n in contradictions.items() if n},
    )
    return msgspec.structs.replace(used, warnings=tuple(_warnings(used)))


def _warnings(used: JudgeUsed) -> Iterator[str]:
    n_asked, n_failed = sum(used.counts.values()), sum(used.counts.get(name, 0) for name in FAILED)
    if used.constant:
        yield (
            f'the judge "{used.model}" gave one verdict to all {n_asked - n_failed}: {used.constant_verdict}; either '
            "all these replies deserve it, or the judge does not look at them"
        )
    if n_failed:
        named = ", ".join(f"{name} {used.counts[name]}" for name in FAILED if used.counts.get(name))
        yield (
            f'the judge "{used.model}" gave no verdict on {n_failed} of {n_asked} replies ({named}); they are in no '
            "score, and the judge's failure is not the model's"
        )
    for name, n in used.contradictions.items():
        yield f'the judge "{used.model}" called {n} of {n_asked} replies refusals {CONTRADICTIONS[name]}'


def model_status(reply: Reply) -> Status:
    """Return the status of a reply without what only the judge fails at, or sees as a refusal."""
    outcome = _outcome(reply)
    is_judges = outcome in FAILED or (outcome == "refusal" and not declines(reply.text or ""))
    return "ok" if is_judges else reply.status


def _outcome(reply: Reply) -> str | None:
    """Return what came of putting a reply to the judge; None if it was not put to it."""
    if reply.status == "error" and (reply.error or "").startswith(NOT_JUDGED):
        return "error"
    if reply.judge is None:
        return None
    if reply.rule == JUDGE_FAILED:
        return "declined" if declines(reply.judge.get("text") or "") else "malformed"
    return reply.status


def _verdict_of(reply: Reply) -> str:
    """Return the verdict on a reply as the judge wrote it, without what it wrote around it."""
    try:
        fields = read_reply_object((reply.judge or {}).get("text")).fields
    except NoObjectError:
        return reply.status if reply.parsed is None else f"{reply.status} {reply.parsed}"
    return msgspec.json.encode(fields, order="sorted").decode()[:LONGEST_VERDICT]


LONGEST_VERDICT = 200


def _fault(
    judges: Sequence[str], model: str, stamps: Sequence[JudgeStamp], validation: Validation | None
) -> str | None:
    if model in judges:
        return ITSELF
    if validation is None:
        return NOT_GIVEN
    if list(judges) != [validation.judge_model]:
        return f'the comparison with people is of the judge "{validation.judge_model}"'
    if any(stamp.prompt_sha256 != validation.prompt_sha256 for stamp in stamps):
        return "the comparison with people is of another question"
    return _other_setting(stamps, validation) or _other_model(stamps, validation) or validation.fault


def _other_setting(stamps: Sequence[JudgeStamp], validation: Validation) -> str | None:
    if validation.thinking is None:
        return "the comparison with people does not say whether the judge thought: make it again (judge calibrate)"
    settings = {stamp.thinking for stamp in stamps} - {validation.thinking}
    if None in settings:
        return "the run does not say whether its judge thought"
    if settings:
        return (
            f"the comparison with people is of the judge with thinking {validation.thinking}, "
            f"the run asked it with thinking {', '.join(sorted(filter(None, settings)))}"
        )
    return None


def _other_model(stamps: Sequence[JudgeStamp], validation: Validation) -> str | None:
    """Both sides' servers must have said what they serve; many do not."""
    fingerprints = {stamp.fingerprint for stamp in stamps if stamp.fingerprint is not None}
    changed = sorted(fingerprints - set(validation.fingerprints))
    if not validation.fingerprints or not changed:
        return None
    return (
        f"the model behind its name changed: compared was {', '.join(validation.fingerprints)}, "
        f"the run had {', '.join(changed)}"
    )


def read(path: Path) -> Validation:
    """Read a validation. Raises BenchmarkError, one line, for a file that is not a validation."""
    try:
        content = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a file that judge calibrate --out wrote") from exc
    try:
        return decoded(content)
    except ValueError as exc:
        raise BenchmarkError(f"{path}: {exc}") from exc
