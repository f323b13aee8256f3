"""The first-person auditor: is the same request answered differently when the user has a name of another group?
The system message of a sampled request gets a line about its user (`first_person.lines`), with two names of a group and
two of the axis's reference: four answers. Names within a group are the control; the client's answer is not used.
Estimands, means over sampled exchanges, wordings and names, per (axis, group), against the reference:
- `first_person_distance_excess`: mean distance between answers to names of the two groups less that within them, in
  embeddings with names and words of the axis masked: 0 in the mean for names dealt to the groups by chance.
- `first_person_refusal_excess`, `first_person_length_excess`: share refused, and words relative to their sum.
- `first_person_quality_excess`, `first_person_sentiment_excess`: a judge's ratings (`appraisal`) of the answers, names
  masked, relative to the width of their scales; only with a judge's `model`.
- `first_person_distance_by_wording`, per axis and wording: the same distances, which show the wording's variance.
Three requests would do, but their excess varies twice as much under chance alone. An exchange that states its user's
name, or whose template takes no system message, is left out and counted. English, and names of the United States.
"""

from typing import Any, Protocol, runtime_checkable

from auditors.clients.cancellation import all_of
from auditors.clients.judge_client import JudgeClient, Judgement
from auditors.probes import CUT_SHORT, askable
from auditors.sides import DRAWS, SidedAuditor, Sides, read
from auditors.structured import Contrast
from auditors.text.conversation import NotAuditableError
from auditors.text.swaps.masking import masked
from auditors.types import (
    AuditFailure,
    AuditorSettings,
    CompletionError,
    Exchange,
    Measurement,
    RegisteredAuditor,
    status_of,
)
from gateway.features.first_person import lines
from gateway.features.first_person.appraisal import (
    QUESTION_SHA256,
    WIDTH,
    Appraisal,
    appraisal_question,
    read_appraisal,
)
from gateway.features.first_person.likelihood import FirstPersonLikelihood, lacks_system_message, nameable
from gateway.features.first_person.lines import Draw, draw

APPRAISED = (lines.QUALITY, lines.SENTIMENT)
"""Metrics of a judge's ratings, in the order of `Appraisal`."""


@runtime_checkable
class FirstPersonSettings(Protocol):
    """The settings that this auditor reads from its section, in addition to those common to all auditors."""

    @property
    def by(self) -> str: ...


class FirstPersonAuditor(SidedAuditor):
    """Asks as users of two groups; what it estimates is in the module docstring."""

    name = "first_person"
    version = "1"
    distance, refusal, length = lines.DISTANCE, lines.REFUSAL, lines.LENGTH
    question_sha256 = QUESTION_SHA256

    @classmethod
    def form(cls, settings: AuditorSettings) -> type[RegisteredAuditor]:
        is_by_likelihood = isinstance(settings, FirstPersonSettings) and settings.by == "likelihood"
        return FirstPersonLikelihood if is_by_likelihood else cls

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        conversation, about = nameable(exchange, askable(exchange, self._max_tokens)), draw(exchange.id)
        forms = [lines.with_line(conversation.messages, line) for line in about.lines]
        sides = await self._ask(exchange, conversation, forms)
        if failure := self._unanswered(sides, lambda reason: self._measured(about, self._lost_words(sides, reason))):
            if all(lacks_system_message(answer.reason or "") for answer in sides.all):
                raise NotAuditableError("no_system_message", failure.message)
            return failure
        contrasts = await self._compared(sides, about.axis)
        if self._judge_model:
            contrasts |= await self._appraised(exchange, conversation.prompt_text, sides, about.axis)
        return self._measured(about, contrasts)

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        nameable(exchange, askable(exchange, self._max_tokens))
        return self._measured(draw(exchange.id), self._lost_words(Sides(), CUT_SHORT))

    def _lost_words(self, sides: Sides, reason: str) -> dict[str, Contrast]:
        lost = super()._lost_words(sides, reason)
        appraised = APPRAISED if self._judge_model else ()
        return lost | dict.fromkeys(appraised, self._unjudged(lost[self.distance]))

    async def _appraised(self, exchange: Exchange, prompt: str, sides: Sides, axis: str) -> dict[str, Contrast]:
        """Return the mean ratings of the group's answers less those of the reference's, over the scales' width."""
        if sides.obstacle:
            return dict.fromkeys(APPRAISED, self._unjudged(sides.obstacle))
        judge, n_chars = self._judge_of(exchange), sum(len(answer.text) for answer in sides.all)
        texts = await read(n_chars, lambda: [masked(answer.text, axis) for answer in sides.all])
        try:
            judgements = await all_of(self._rated(judge, prompt, text) for text in texts)
        except CompletionError as exc:
            lost = Contrast(None, status_of(exc.kind), f"judge: {exc.kind}: {exc}")
            return dict.fromkeys(APPRAISED, self._unjudged(lost))
        stamp, ratings = judgements[0].stamp, [judged.value for judged in judgements if judged.value is not None]
        if len(ratings) < len(judgements):
            reason = next(judged.reason for judged in judgements if judged.value is None)
            return dict.fromkeys(APPRAISED, Contrast(None, "malformed", f"judge: {reason}", stamp))
        by_scale = zip(APPRAISED, zip(*ratings, strict=True), strict=True)
        return {
            metric: Contrast((sum(scores[:DRAWS]) - sum(scores[DRAWS:])) / (DRAWS * WIDTH), judge=stamp)
            for metric, scores in by_scale
        }

    async def _rated(self, judge: JudgeClient, prompt: str, answer: str) -> Judgement[Appraisal]:
        async with self._slots:
            return await judge.ask(lambda: appraisal_question(prompt, answer), read_appraisal)

    def _measured(self, about: Draw, contrasts: dict[str, Contrast]) -> list[Measurement]:
        detail = {"embedder": self._embedder.name, "wording": about.wording, "names": list(about.names)}
        further: dict[str, Any] = {"reference": about.reference, "detail": detail}
        placed = {metric: (about.group, contrast) for metric, contrast in contrasts.items()}
        placed[lines.BY_WORDING] = about.wording, contrasts[lines.DISTANCE]
        return [
            self._measurement(metric, about.axis, group, *contrast[:3], judge=contrast.judge, **further)
            for metric, (group, contrast) in placed.items()
        ]
