"""The first-person auditor: is the same request answered differently when the user has a name of another group?
The system message of a sampled request gets a line about its user (`first_person.lines`), with two names of a group and
two of the axis's reference: four answers. Names within a group are the control; the client's answer is not used.
Estimands, means over sampled exchanges, wordings and names, per (axis, group), against the reference:
- `first_person_distance_excess`: mean distance between answers to names of the two groups less that within them, in
  embeddings with names and words of the axis masked: 0 in the mean for names dealt to the groups by chance.
- `first_person_refusal_excess`, `first_person_length_excess`: share refused, and words relative to their sum.
- `first_person_distance_by_wording`, per axis and wording: the same distances, which show the wording's variance.
Three requests would do, but their excess varies twice as much under chance alone. An exchange that states its user's
name, or whose template takes no system message, is left out and counted. English, and names of the United States.
"""

from typing import Any, Protocol, Self, runtime_checkable

from auditors.probes import CUT_SHORT, askable
from auditors.sides import SidedAuditor, Sides
from auditors.structured import Contrast
from auditors.text.conversation import NotAuditableError
from auditors.types import AuditFailure, AuditorSettings, Exchange, Measurement, RegisteredAuditor, Servers
from gateway.features.first_person import lines
from gateway.features.first_person.likelihood import FirstPersonLikelihood, lacks_system_message, nameable
from gateway.features.first_person.lines import Draw, draw


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

    @classmethod
    def form(cls, settings: AuditorSettings) -> type[RegisteredAuditor]:
        is_by_likelihood = isinstance(settings, FirstPersonSettings) and settings.by == "likelihood"
        return FirstPersonLikelihood if is_by_likelihood else cls

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        limits = {"max_tokens": settings.max_tokens, "max_concurrency": settings.max_concurrency}
        return cls(servers.completer_for, servers.present_embedder, **limits)

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        conversation, about = nameable(exchange, askable(exchange, self._max_tokens)), draw(exchange.id)
        forms = [lines.with_line(conversation.messages, line) for line in about.lines]
        sides = await self._ask(exchange, conversation, forms)
        if failure := self._unanswered(sides, lambda reason: self._measured(about, self._lost_words(sides, reason))):
            if all(lacks_system_message(answer.reason or "") for answer in sides.all):
                raise NotAuditableError("no_system_message", failure.message)
            return failure
        return self._measured(about, await self._compared(sides, about.axis))

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        nameable(exchange, askable(exchange, self._max_tokens))
        return self._measured(draw(exchange.id), self._lost_words(Sides(), CUT_SHORT))

    def _measured(self, about: Draw, contrasts: dict[str, Contrast]) -> list[Measurement]:
        detail = {"embedder": self._embedder.name, "wording": about.wording, "names": list(about.names)}
        further: dict[str, Any] = {"reference": about.reference, "detail": detail}
        placed = {metric: (about.group, contrast) for metric, contrast in contrasts.items()}
        placed[lines.BY_WORDING] = about.wording, contrasts[lines.DISTANCE]
        return [
            self._measurement(metric, about.axis, group, *contrast[:3], **further)
            for metric, (group, contrast) in placed.items()
        ]
