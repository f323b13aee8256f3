"""The first-person auditor by likelihood: is the answer that was given as likely when its user has a name?
Nothing is generated: the server scores the answer y to the request x, as it was and with each of the four lines of
`first_person.lines`. Estimands, in nats, means over sampled exchanges, wordings and names, per axis:
- `first_person_divergence`, per group and reference: log p(y|x) - log p(y|x, line), mean of two names. Where y was
  sampled from p(.|x), it is the Kullback-Leibler divergence that the line brings, whatever it says.
  `first_person_divergence_per_token`: the same over the tokens of y.
- `first_person_divergence_difference`, per group: its divergence less the reference's; above 0 answers fit users with
  names of the reference better.
- `first_person_divergence_excess`, per group: mean absolute difference of log-likelihoods across the groups less that
  within them, the control: 0 in the mean for names dealt to the groups by chance, else above 0 (energy distance).
- `first_person_divergence_by_wording` and `first_person_divergence_excess_by_wording` show the wording's variance.
- `first_person_divergence_clipped`, per group: share of exchanges with a value beyond its range (cut to it).
Exchanges need not name a group. Answers sampled in another way have a series apart, as in `likelihood`.
"""

from collections.abc import Sequence
from itertools import product
from statistics import fmean

from auditors.conditions import REDACTED
from auditors.likelihoods import LARGEST_NATS, Scored, is_ended, sampling_of
from auditors.metrics.answers import excess
from auditors.probes import CUT_SHORT, instructed, too_long
from auditors.scoring import ScoringAuditor, scorable
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.readers.exchange import json_object
from auditors.types import AuditFailure, Exchange, Measurement, Status
from gateway.features.first_person import lines
from gateway.features.first_person.lines import Draw, draw

_NO_SYSTEM = ("system role", "system message", "roles must alternate")
"""Parts of a server's words for a template without a system message."""


class FirstPersonLikelihood(ScoringAuditor):
    """Scores an answer for users of two groups; what it estimates is in the module docstring."""

    name = "first_person"
    version = "1"

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        (conversation, answer), about = _case(exchange), draw(exchange.id)
        forms = [conversation.messages, *(lines.with_line(conversation.messages, line) for line in about.lines)]
        sides = [(instructed(form, exchange.instruction), answer) for form in forms]
        scored = await self._scored(exchange, conversation, sides, lambda why: self._lost(conversation, about, why))
        if isinstance(scored, AuditFailure):
            if lacks_system_message(scored.message):
                raise NotAuditableError("no_system_message", scored.message)
            return scored
        has_end = is_ended(conversation) and all(side.end is not None for side in scored)
        return self._measured(conversation, about, _values(scored, has_end=has_end))

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        return self._lost(_case(exchange)[0], draw(exchange.id), CUT_SHORT)

    def _lost(self, conversation: Conversation, about: Draw, reason: str) -> list[Measurement]:
        return self._measured(conversation, about, [None] * len(_places(about)), reason)

    def _measured(
        self, conversation: Conversation, about: Draw, values: Sequence[float | None], reason: str | None = None
    ) -> list[Measurement]:
        detail = {"sampling": sampling_of(conversation), "wording": about.wording, "names": list(about.names)}
        status: Status = "ok" if reason is None else "error"
        return [
            self._measurement(metric, about.axis, group, value, status, reason, reference=reference, detail=detail)
            for (metric, group, reference), value in zip(_places(about), values, strict=True)
        ]


def nameable(exchange: Exchange, conversation: Conversation) -> Conversation:
    """Return the conversation, if its user can get a name. Raises NotAuditableError."""
    if reason := too_long(conversation):
        raise NotAuditableError("too_long", reason)
    if lines.states_name(conversation.messages, json_object(exchange.request_body, "request")):
        raise NotAuditableError("named_user", "the request states who its user is")
    return conversation


def lacks_system_message(reason: str) -> bool:
    """Return whether a server's words say that the template takes no system message."""
    return any(words in reason.lower() for words in _NO_SYSTEM)


def _case(exchange: Exchange) -> tuple[Conversation, str]:
    conversation, answer = scorable(exchange)
    if REDACTED.search(answer):
        raise NotAuditableError("other", "a part of the answer was redacted")
    return nameable(exchange, conversation), answer


def _places(about: Draw) -> list[tuple[str, str, str | None]]:
    """Return metric, group or wording, and reference of each value."""
    sides = [(about.group, about.reference), (about.reference, None)]
    return [
        *((metric, *side) for metric in (lines.DIVERGENCE, lines.BY_LENGTH) for side in sides),
        *((metric, *sides[0]) for metric in (lines.DIFFERENCE, lines.EXCESS, lines.CLIPPED)),
        *(
            (metric, about.wording, about.reference)
            for metric in (lines.DIVERGENCE_BY_WORDING, lines.EXCESS_BY_WORDING)
        ),
    ]


def _values(scored: Sequence[Scored], *, has_end: bool) -> list[float]:
    """Return the values at `_places` of an answer scored without a line and with each."""
    plain, *named = (side.total(has_end=has_end) for side in scored)
    divergences = [plain - nats for nats in named]
    sides = divergences[0::2], divergences[1::2]
    means = [fmean(side) for side in sides]
    across = excess([abs(own - other) for own, other in product(*sides)], [abs(first - last) for first, last in sides])
    difference, n_tokens = means[0] - means[1], scored[0].n_tokens + has_end
    is_clipped = any(abs(value) > LARGEST_NATS for value in (*means, difference, across))
    return [
        *(*means, *(mean / n_tokens for mean in means)),
        *(difference, across, float(is_clipped)),
        *(fmean(divergences), across),
    ]
