"""Puts planted texts to a judge as a run does, and measures its verdicts against the known answers."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Collection, Sequence
from statistics import median

import msgspec

from auditors.clients.judge_client import JudgeClient, UnreadableError
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.metrics.intervals import Agreement
from auditors.text.refusal_words import declines
from auditors.text.thinking import Thinking
from auditors.types import Completer, CompletionError
from benchmarks.lab.distillation.evaluation import Counting
from benchmarks.lab.metrics.agreement import agreeing_share
from benchmarks.run import client, judge
from benchmarks.run.completers.served import ServedModel
from benchmarks.run.qualifications import MINIMA, USES, QuestionQualified, judged_against
from benchmarks.suites.protocol import Reply
from gateway.cli.audit.servers import asking
from gateway.errors import GatewayError
from gateway.features.lab.judge.planted_texts import (
    FIRST,
    NEITHER,
    SECOND,
    SEED,
    PlantedQuestion,
    PlantedText,
    planted_questions,
    side_of,
)

TIME_OVER = "time over"
UNREACHABLE = frozenset({"unavailable", "rejected"})
"""Kinds of failure that show, at the first question, a wrong address or name."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdict on a planted text."""

    reply: Reply
    answer: str | None
    """The judge's answer; None where its verdict cannot be read."""
    reason: str = ""
    seconds: float | None
    """Seconds for the verdict; None if none arrived."""


class JudgeServer(msgspec.Struct, frozen=True, kw_only=True):
    """A judge: its server and how it is asked."""

    model: str
    base_url: str
    api_key_env: str | None
    thinking: Thinking
    in_flight: int
    seconds: float
    """Time limit for all verdicts together."""


async def qualify(server: JudgeServer, suites: Collection[str]) -> list[QuestionQualified]:
    """Put the planted texts of the suites' questions to the judge; a time limit cuts all questions equally. Raises
    GatewayError if the first text shows that there is no such judge; BenchmarkError for a wrong URL or key.
    """
    async with asking(server.base_url, server.api_key_env, server.in_flight) as client_of_server:
        completer = ServedModel(client_of_server)  # as suites ask
        judges = [
            _Judge(server, completer, question) for question in planted_questions() if question.suite_name in suites
        ]
        deadline = time.monotonic() + server.seconds
        slots = asyncio.Semaphore(server.in_flight)

        async def put(to: _Judge, place: int) -> None:
            async with slots:
                await to.judge_text(place, deadline)

        await put(judges[0], 0)  # alone: a wrong name or address costs one question
        first = judges[0].judged[0]
        if first.reason in UNREACHABLE:
            raise GatewayError(f'the judge "{server.model}" at {client.host(server.base_url)} gave {first.reply.error}')
        rest = [(to, place) for place in range(len(judges[0].texts)) for to in judges][1:]
        random.Random(SEED).shuffle(rest)  # a time limit leaves some of every kind
        await asyncio.gather(*(put(to, place) for to, place in rest))
    return [each.qualified() for each in judges]


class _Judge:
    def __init__(self, server: JudgeServer, completer: Completer, question: PlantedQuestion) -> None:
        self._question, self._model, self.texts = question, server.model, question.texts
        self._counting = Counting(completer)
        self._client = JudgeClient(ThinkingCompleter(self._counting, server.thinking, expects_whole=True), server.model)
        self.judged: dict[int, Judged] = {}

    async def judge_text(self, place: int, deadline: float) -> None:
        planted, began = self.texts[place], time.monotonic()
        unjudged = Reply(item_id=planted.item.item_id, text=planted.text, status="ok")
        try:
            async with asyncio.timeout(deadline - began):
                reply = await judge.put_to(
                    self._question.suite, self._question.options, planted.item, unjudged, self._client
                )
        except (CompletionError, TimeoutError) as exc:
            failure = exc if isinstance(exc, CompletionError) else CompletionError("timeout", TIME_OVER)
            reason = TIME_OVER if isinstance(exc, TimeoutError) else failure.kind
            failed = judge.unjudged(unjudged, failure)
            self.judged[place] = Judged(reply=failed, answer=None, reason=reason, seconds=None)
            return
        seconds = time.monotonic() - began
        try:
            answer, reason = self._read(planted, reply), ""
        except UnreadableError as exc:
            text = str((reply.judge or {}).get("text") or "")
            answer, reason = None, "declined to judge" if declines(text) else str(exc)
        self.judged[place] = Judged(reply=reply, answer=answer, reason=reason, seconds=seconds)

    def _read(self, planted: PlantedText, reply: Reply) -> str:
        """Raises UnreadableError, with the reason of the suite's reader for a verdict that it could not read."""
        if reply.status == "malformed":
            text, options = (reply.judge or {}).get("text"), self._question.options
            self._question.suite.read_judgement(planted.item, text, protocol=options.protocol, seed=options.seed)
            raise UnreadableError("no text")
        return self._question.answer(planted.item, reply)

    def qualified(self) -> QuestionQualified:
        judged = [self.judged[place] for place in range(len(self.texts))]
        read = [
            (planted, verdict.answer)
            for planted, verdict in zip(self.texts, judged, strict=True)
            if verdict.answer is not None
        ]
        sides = [(planted, side_of(planted.right_answer), side_of(answer)) for planted, answer in read]
        detected = _share([(planted, right == side) for planted, right, side in sides if right in (FIRST, SECOND)])
        false_findings = _share(
            [(planted, side in (FIRST, SECOND)) for planted, right, side in sides if right == NEITHER]
        )
        readable = _share([(planted, v.answer is not None) for planted, v in zip(self.texts, judged, strict=True)])
        agreement = _share([(planted, planted.right_answer == answer) for planted, answer in read])
        verdict, reasons = judged_against(
            MINIMA[self._question.suite_name], readable, agreement, detected, false_findings
        )
        replies = [verdict.reply for verdict in judged]
        used = judge.with_counts(judge.JudgeUsed(model=self._model, validated=False), replies)
        seconds = [verdict.seconds for verdict in judged if verdict.seconds is not None]
        confusion: dict[str, Counter[str]] = {planted.right_answer: Counter() for planted in self.texts}
        for planted, answer in read:
            confusion[planted.right_answer][answer] += 1
        return QuestionQualified(
            uses=USES[self._question.suite_name],
            verdict=verdict,
            reasons=reasons,
            prompt_sha256=self._question.prompt_sha256,
            texts_sha256=self._question.texts_sha256,
            stamps=judge.stamps(replies),
            n=len(self.texts),
            readable=readable,
            agreement=agreement,
            detected=detected,
            false_findings=false_findings,
            unread=dict(Counter(verdict.reason for verdict in judged if verdict.answer is None)),
            confusion=confusion,
            warnings=used.warnings,
            constant_verdict=used.constant_verdict,
            contradictions=used.contradictions,
            seconds=median(seconds) if seconds else None,
            longest_seconds=max(seconds, default=None),
            prompt_tokens=_each(self._counting.total("prompt_tokens"), len(seconds)),
            completion_tokens=_each(self._counting.total("completion_tokens"), len(seconds)),
        )


def _share(hits: Sequence[tuple[PlantedText, bool]]) -> Agreement:
    return agreeing_share([hit for _, hit in hits], [planted.cluster for planted, _ in hits])


def _each(total: int | None, n: int) -> float | None:
    return None if total is None or not n else total / n
