"""The judge auditor: a language model says, in a structured reply, which groups an answer favours.
Estimand (axis, group): mean favouritism -1..2 (protocols 2.7) over exchanges that mention the group in prompt or answer
(`identity.groups_mentioned`). A mentioned group that the judge leaves out scores 0; a group that only the judge names
is counted, but has no score, as its entry would depend on the score. Refused exchanges have status "refusal", an
unreadable score is missing ("malformed", `auditors.judge_verdict`). The number does not show whether the judge is right
or favouring was asked for. The text is shown as data (`text.fencing`).
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from auditors.audit_texts import Reason, fitted
from auditors.clients.judge_client import JudgeClient, JudgeQuestion, prompt_sha256
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.judge_verdict import MOST_FINDINGS, REPLY_SCHEMA, Place, Verdict, parse_verdict
from auditors.measuring import MeasuringAuditor
from auditors.text.conversation import Conversation, no_text
from auditors.text.fencing import defused, mark, speaks_to_a_judge
from auditors.text.identity import AXES, groups_mentioned
from auditors.text.readers.exchange import read_conversation
from auditors.text.refusal_words import declines
from auditors.text.thinking import OFF, Thinking, parse_thinking
from auditors.types import (
    AsksUpstream,
    AuditFailure,
    AuditorSettings,
    Completer,
    Completion,
    CompletionError,
    CompletionRequest,
    Exchange,
    JudgeStamp,
    Measurement,
    Message,
    Servers,
    Status,
    status_of,
)

METRIC = "favoritism"
FINDING = "judge_finding"
"""Metric, in no series, of what a verdict says and no score may rest on; its reason says what it is."""
NOT_MENTIONED = "judge: it named a group that the exchange does not mention"
CONTRADICTION = "judge: a refusal that also favours a group"
NO_REFUSAL_WORDS = "judge: a refusal of an answer without words of refusal"
SPEAKS_TO_THE_JUDGE = "seems to give orders to the judge"
"""Noted in `detail`: the score counts, but a person may want to check it."""
LONGEST_PART_CHARS = 12_000
"""The judge gets the end of a longer prompt and the beginning of a longer answer; a cut is noted in `detail`."""

MOST_JUDGES = 256
"""Most models that judge themselves whose clients are kept; requests may name any number of models."""

_FILE: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("judge.toml").read_text(encoding="utf-8"))
USER_PROMPT, WHY_PROMPT = _FILE["user"], _FILE["why"]
SYSTEM_PROMPT = _FILE["system"].format(
    axes="\n".join(f"- {axis}: {', '.join(group.name for group in groups)}" for axis, groups in AXES.items()),
    most=MOST_FINDINGS,
)

PROMPT_SHA256 = prompt_sha256(SYSTEM_PROMPT, USER_PROMPT, REPLY_SCHEMA)
"""Digest that identifies the question, without the random mark."""


def judge_messages(prompt: str, answer: str, nonce: str) -> list[Message]:
    """Return the messages to the judge: the rules, then the audited text, defused, in a fence marked with the nonce."""
    user = USER_PROMPT.format(nonce=nonce, prompt=defused(prompt), answer=defused(answer))
    return [Message("system", SYSTEM_PROMPT), Message("user", user)]


def judge_question(prompt: str, answer: str, nonce: str, max_tokens: int = 256) -> JudgeQuestion:
    """Return the question about a prompt and an answer, cut to the longest parts that a judge gets."""
    return JudgeQuestion(
        messages=judge_messages(prompt[-LONGEST_PART_CHARS:], answer[:LONGEST_PART_CHARS], nonce),
        prompt_sha256=PROMPT_SHA256,
        schema=REPLY_SCHEMA,
        max_tokens=max_tokens,
    )


class JudgeAuditor(MeasuringAuditor):
    """Asks a judge about an exchange; the module docstring defines the estimand."""

    name = "judge"
    version = "5"
    needs_embedder = False
    asks_upstream: AsksUpstream = "without a server of its own"

    def __init__(
        self,
        completer_for: Callable[[Exchange], Completer],
        model: str | None,
        *,
        max_tokens: int = 256,
        thinking: Thinking = OFF,
    ):
        """`completer_for`: an exchange's judge; `model` None: the served model; `max_tokens`: of a verdict."""
        self._completer_for = completer_for
        self._model = model
        self._max_tokens = max_tokens
        self._thinking = thinking
        self._judges: dict[tuple[str, str], JudgeClient] = {}
        self._reason_completers: dict[str, ThinkingCompleter] = {}

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        judge = servers.judge
        ask = servers.completer_for if judge is None else lambda _: judge
        thinking = OFF if settings.thinking is None else parse_thinking(settings.thinking)
        return cls(ask, settings.model, max_tokens=settings.max_tokens, thinking=thinking)

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Return measurements of "favoritism" per concerned (axis, group); an empty list if no group is concerned."""
        conversation = read_conversation(exchange)
        if conversation.reply_text.strip():
            return await self._ask_judge(exchange, conversation)
        if conversation.refusal is None:
            raise no_text(conversation)
        # A refusal field in place of text is a refusal, and needs no judge.
        return self._measurements(conversation, Verdict(True, []), self._stamp_without_request(exchange))

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        conversation = read_conversation(exchange)
        return self._missing_measurements(exchange, conversation, "error") if conversation.reply_text.strip() else []

    async def reason(self, exchange: Exchange, measurements: Sequence[Measurement]) -> Reason | None:
        """Ask the judge to explain the findings of its verdict, without thoughts; see `SaysWhy`."""
        reported = [
            measurement
            for measurement in measurements
            if measurement.value is not None and measurement.detail.get("reported")
        ]
        if not reported:
            return None
        findings = [
            {
                "axis": measurement.axis,
                "group": measurement.group,
                "reference": measurement.reference,
                "score": int(measurement.value or 0),
            }
            for measurement in reported
        ]
        verdict = msgspec.json.encode({"refused": False, "findings": findings}).decode()
        question_messages = self._question(read_conversation(exchange)).messages
        messages = [*question_messages, Message("assistant", verdict), Message("user", WHY_PROMPT)]
        model = self._model or exchange.served_model
        request = CompletionRequest(model=model, messages=messages, max_tokens=self._max_tokens, temperature=0.0)
        try:
            completion = await self._reason_completer(exchange).complete(request)
        except CompletionError as exc:
            return Reason(why_none=f"the judge was asked for a reason and gave none: {exc.kind.replace('_', ' ')}")
        text = (completion.text or "").strip()
        if not text:
            return Reason(why_none="the judge was asked for a reason and its reply was empty")
        return Reason(text=fitted(text))

    async def _ask_judge(self, exchange: Exchange, conversation: Conversation) -> list[Measurement] | AuditFailure:
        judge = self._judge_of(exchange)
        try:
            judgement = await judge.ask(lambda: self._question(conversation), parse_verdict)
        except CompletionError as exc:
            return self._failure(
                exc.kind, f"judge: {exc}", self._missing_measurements(exchange, conversation, status_of(exc.kind))
            )
        if judgement.value is None:
            missing = self._missing_measurements(exchange, conversation, "malformed")
            return self._failure("malformed", f"judge: {judgement.reason}", missing)
        stamp = judgement.stamp
        if self._model is None:  # the model judges itself: the judge has its name in series
            stamp = msgspec.structs.replace(stamp, model=exchange.series_model)
        return self._measurements(conversation, judgement.value, stamp)

    def _judge_of(self, exchange: Exchange) -> JudgeClient:
        """Return the client of an upstream and model, which remembers the features of its server."""
        key = (exchange.upstream, self._model or exchange.served_model)
        if key not in self._judges:
            if len(self._judges) >= MOST_JUDGES:
                self._judges.clear()
            completer = ThinkingCompleter(self._completer_for(exchange), self._thinking, expects_whole=True)
            self._judges[key] = JudgeClient(completer, key[1])
        return self._judges[key]

    def _reason_completer(self, exchange: Exchange) -> Completer:
        if exchange.upstream not in self._reason_completers:
            if len(self._reason_completers) >= MOST_JUDGES:
                self._reason_completers.clear()
            completer = _Uncounted(self._completer_for(exchange))
            self._reason_completers[exchange.upstream] = ThinkingCompleter(completer, self._thinking)
        return self._reason_completers[exchange.upstream]

    def _question(self, conversation: Conversation) -> JudgeQuestion:
        prompt, answer = _judged_parts(conversation)
        return judge_question(prompt, answer, mark(), self._max_tokens)

    def _measurements(self, conversation: Conversation, verdict: Verdict, stamp: JudgeStamp) -> list[Measurement]:
        mentioned = groups_mentioned("\n".join(_judged_parts(conversation)))
        detail = _detail(conversation)
        further = [
            self._measurement(FINDING, None, None, None, "unrelated", reason, judge=stamp, detail=found)
            for reason, found in _further(conversation, verdict, mentioned)
        ]
        if verdict.refused:
            places: Sequence[tuple[str | None, str | None]] = mentioned or [(None, None)]
            refusals = [self._group_measurement(stamp, *place, None, "refusal", None, detail) for place in places]
            return refusals + further
        return [self._score(stamp, verdict, place, detail) for place in mentioned] + further

    def _score(self, stamp: JudgeStamp, verdict: Verdict, place: Place, detail: dict[str, Any]) -> Measurement:
        finding, unread = verdict.finding(place), verdict.why_unread(place)
        reference = None if finding is None else finding.reference
        detail = detail | {"reported": finding is not None}
        status: Status = "ok" if unread is None else "malformed"
        return self._group_measurement(stamp, *place, reference, status, verdict.score(place), detail, unread)

    def _group_measurement(
        self,
        stamp: JudgeStamp,
        axis: str | None,
        group: str | None,
        reference: str | None,
        status: Status,
        value: float | None,
        detail: dict[str, Any],
        reason: str | None = None,
    ) -> Measurement:
        further = {"reference": reference, "judge": stamp, "detail": detail}
        return self._measurement(METRIC, axis, group, value, status, reason or _REASONS.get(status), **further)

    def _stamp_without_request(self, exchange: Exchange) -> JudgeStamp:
        return JudgeStamp(
            model=self._model or exchange.series_model,
            prompt_sha256=PROMPT_SHA256,
            attempts=0,
            thinking=str(self._thinking),
        )

    def _missing_measurements(
        self, exchange: Exchange, conversation: Conversation, status: Status
    ) -> list[Measurement]:
        """Return a measurement for each mentioned group; which others the judge would have reported is unknown."""
        stamp, detail = self._stamp_without_request(exchange), _detail(conversation)
        mentioned = groups_mentioned("\n".join(_judged_parts(conversation)))
        return [self._group_measurement(stamp, axis, group, None, status, None, detail) for axis, group in mentioned]


class _Uncounted:
    """Hides the counting of judgements of a completer, because a reason is not a judgement."""

    def __init__(self, inner: Completer) -> None:
        self._inner = inner

    async def complete(self, request: CompletionRequest) -> Completion:
        return await self._inner.complete(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


_REASONS: dict[Status, str] = {
    "refusal": "the assistant declined to answer",
    "malformed": "the judge gave no verdict that can be read",
    "error": "the judge could not be asked",
    "thinking_exhausted": "the judge's reply ended while it was thinking",
}


def _judged_parts(conversation: Conversation) -> tuple[str, str]:
    return conversation.request_text[-LONGEST_PART_CHARS:], conversation.reply_text[:LONGEST_PART_CHARS]


def _detail(conversation: Conversation) -> dict[str, Any]:
    longest = max(len(conversation.request_text), len(conversation.reply_text))
    cut = ["cut for the judge"] if longest > LONGEST_PART_CHARS else []
    warnings = [SPEAKS_TO_THE_JUDGE] if any(map(speaks_to_a_judge, _judged_parts(conversation))) else []
    notes = [*conversation.notes, *cut, *warnings]
    return {"notes": notes} if notes else {}


def _further(
    conversation: Conversation, verdict: Verdict, mentioned: Sequence[Place]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is counted of a verdict besides its scores, by a reason of a closed set, with its detail."""
    if verdict.is_contradictory:
        yield CONTRADICTION, {}
    if verdict.refused and conversation.refusal is None and not declines(conversation.reply_text):
        yield NO_REFUSAL_WORDS, {}
    for part in verdict.unread:
        if not set(part.places) & set(mentioned):
            yield part.reason, {}
    for finding in verdict.findings:
        if not verdict.refused and (finding.axis, finding.group) not in mentioned:
            yield NOT_MENTIONED, msgspec.to_builtins(finding)
