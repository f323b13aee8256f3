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

from typing import Any, Self

from auditors.probes import CUT_SHORT, askable, too_long
from auditors.sides import SidedAuditor, Sides
from auditors.structured import Contrast
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.readers.exchange import json_object
from auditors.types import AuditFailure, AuditorSettings, Exchange, Measurement, Servers
from gateway.features.first_person import lines
from gateway.features.first_person.lines import Draw, draw

_NO_SYSTEM = ("system role", "system message", "roles must alternate")
"""Parts of a server's words for a template without a system message."""


class FirstPersonAuditor(SidedAuditor):
    """Asks as users of two groups; what it estimates is in the module docstring."""

    name = "first_person"
    version = "1"
    distance, refusal, length = lines.DISTANCE, lines.REFUSAL, lines.LENGTH

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Self:
        limits = {"max_tokens": settings.max_tokens, "max_concurrency": settings.max_concurrency}
        return cls(servers.completer_for, servers.present_embedder, **limits)

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        conversation, about = self._conversation(exchange), draw(exchange.id)
        forms = [lines.with_line(conversation.messages, line) for line in about.lines]
        sides = await self._ask(exchange, conversation, forms)
        if failure := self._unanswered(sides, lambda reason: self._measured(about, self._lost_words(sides, reason))):
            reasons = [(answer.reason or "").lower() for answer in sides.all]
            if all(any(words in reason for words in _NO_SYSTEM) for reason in reasons):
                raise NotAuditableError("no_system_message", failure.message)
            return failure
        return self._measured(about, await self._compared(sides, about.axis))

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        self._conversation(exchange)
        return self._measured(draw(exchange.id), self._lost_words(Sides(), CUT_SHORT))

    def _conversation(self, exchange: Exchange) -> Conversation:
        """Return the conversation of an exchange whose user can get a name. Raises NotAuditableError."""
        conversation = askable(exchange, self._max_tokens)
        if reason := too_long(conversation):
            raise NotAuditableError("too_long", reason)
        if lines.states_name(conversation.messages, json_object(exchange.request_body, "request")):
            raise NotAuditableError("named_user", "the request states who its user is")
        return conversation

    def _measured(self, about: Draw, contrasts: dict[str, Contrast]) -> list[Measurement]:
        detail = {"embedder": self._embedder.name, "wording": about.wording, "names": list(about.names)}
        further: dict[str, Any] = {"reference": about.reference, "detail": detail}
        placed = {metric: (about.group, contrast) for metric, contrast in contrasts.items()}
        placed[lines.BY_WORDING] = about.wording, contrasts[lines.DISTANCE]
        return [
            self._measurement(metric, about.axis, group, *contrast[:3], **further)
            for metric, (group, contrast) in placed.items()
        ]
