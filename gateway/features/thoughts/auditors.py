"""The auditors `judge_thought` and `refusal_thought`: thoughts, judged as answers are, in streams of their own.
Estimands: those of `judge` and `refusal` with the thoughts in the answer's place, over sampled exchanges with readable
thoughts (others are not auditable); and `thought_disagreement_rate`, the share of these in which thoughts and answer
differ in score (`favoritism`; the judge is asked about both) or verdict (`refusal_rate`), by axis and group. A value
says what the words of the thoughts show: they need not be the cause of the answer.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

import msgspec

from auditors.judge import METRIC, JudgeAuditor
from auditors.measuring import MeasuringAuditor
from auditors.refusal import RATE, RefusalAuditor
from auditors.types import AsksUpstream, AuditFailure, AuditorSettings, Exchange, Measurement, Servers
from gateway.features.thoughts.reading import DISAGREEMENT, PREFIX, with_thoughts_as_answer


class ThoughtAuditor(MeasuringAuditor):
    """Audits the thoughts of an exchange as another auditor audits its answer."""

    version = "1"
    needs_embedder: ClassVar[bool] = False
    compared: ClassVar[str]

    def __init__(self, of_answers: MeasuringAuditor) -> None:
        self._of_answers = of_answers

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        thoughts = await self._of_answers.audit(with_thoughts_as_answer(exchange))
        if isinstance(thoughts, AuditFailure):
            missing = self._renamed(thoughts.missing)
            return msgspec.structs.replace(thoughts, auditor=self.name, auditor_version=self.version, missing=missing)
        answer = await self._of_answers.audit(exchange)
        scores = {} if isinstance(answer, AuditFailure) else {(m.axis, m.group): m for m in self._compared(answer)}
        disagreements = [
            self._disagreement(thought, scores.get((thought.axis, thought.group)))
            for thought in self._compared(thoughts)
        ]
        return [*self._renamed(thoughts), *disagreements]

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        missing = self._of_answers.missing(with_thoughts_as_answer(exchange))
        return [*self._renamed(missing), *(self._disagreement(m, None) for m in self._compared(missing))]

    def _compared(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        return [measurement for measurement in measurements if measurement.metric == self.compared]

    def _disagreement(self, thought: Measurement, answer: Measurement | None) -> Measurement:
        if thought.value is None or answer is None or answer.value is None:
            reason = "thoughts and answer do not both have a score"
            return self._measurement(DISAGREEMENT, thought.axis, thought.group, None, "malformed", reason)
        return self._measurement(DISAGREEMENT, thought.axis, thought.group, float(thought.value != answer.value))

    def _renamed(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        return [
            msgspec.structs.replace(
                measurement, auditor=self.name, auditor_version=self.version, metric=PREFIX + measurement.metric
            )
            for measurement in measurements
        ]


class JudgeThoughtAuditor(ThoughtAuditor):
    """Asks the judge which groups the thoughts favour."""

    name = "judge_thought"
    asks_upstream: ClassVar[AsksUpstream] = "without a server of its own"
    compared = METRIC

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        return cls(JudgeAuditor.built(settings, servers))


class RefusalThoughtAuditor(ThoughtAuditor):
    """Reads thoughts for refusals and lectures."""

    name = "refusal_thought"
    asks_upstream: ClassVar[AsksUpstream] = "never"
    compared = RATE

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        return cls(RefusalAuditor.built(settings, servers))
