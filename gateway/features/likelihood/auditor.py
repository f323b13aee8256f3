"""Measures whether an answer is as likely when question and answer are about another group; English only.
A swap (`auditors.text.swaps`) replaces the group that a question names in the question x and the answer y: σ(x), σ(y).
The server tells both log-likelihoods by a prefill each. Estimands, each a mean over sampled exchanges that can be
swapped, per (axis, group named):
- `likelihood_divergence`: log p(y|x) - log p(σ(y)|σ(x)), in nats; `likelihood_divergence_per_token`: the same over the
  tokens of y. Where y was sampled from p(.|x), the mean is the Kullback-Leibler divergence between the answers and the
  answers to the swapped question, read back: 0 only if the model treats both the same, and then each value is 0.
- `likelihood_divergence_names` and `likelihood_divergence_rest`: its parts in the words that the swap exchanged, whose
  frequencies differ, and in all other words. They add up to the whole; each alone may be negative in the mean.
- `likelihood_clipped`: share of answers whose value is outside its range and counts as its end.
The question alone chooses the group swapped in; a swap must be reversible on each text, other answers are left out and
counted. Answers to the swapped question that no swap gives make the mean an upper bound. Answers sampled in another way
(temperature, truncation, penalties, forced formats) have a series apart: a difference of likelihoods, no divergence. No
value shows which answer is right. Answers after thoughts, which are not kept, are not auditable.
"""

import asyncio
from typing import NamedTuple

from auditors.audit_texts import Shares, leave
from auditors.conditions import REDACTED
from auditors.likelihoods import LARGEST_NATS, is_ended, sampling_of
from auditors.probes import CUT_SHORT, instructed
from auditors.scoring import ScoringAuditor, scorable
from auditors.text.conversation import Conversation
from auditors.text.swaps.outcome import NotSwapped, Swapped
from auditors.text.swaps.prompt import swapped_prompt
from auditors.text.swaps.swap import swap
from auditors.types import AuditFailure, Exchange, Measurement, Message, Status
from gateway.features.likelihood import scoring

METRICS = (scoring.WHOLE, scoring.BY_LENGTH, scoring.NAMES, scoring.REST, scoring.CLIPPED)


class _Case(NamedTuple):
    conversation: Conversation
    about: Swapped
    messages: list[Message]
    answer: str
    swapped_messages: list[Message]
    swapped_answer: str


class LikelihoodAuditor(ScoringAuditor):
    """Compares the likelihoods of an answer about two groups; what it estimates is in the module docstring."""

    name = "likelihood"
    version = "3"

    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Return every metric; or a measurement without a value that says why nothing was swapped."""
        case = await asyncio.to_thread(_case, exchange)
        if isinstance(case, NotSwapped):
            return [self._unswapped(case, scoring.WHOLE)]
        sides = ((case.messages, case.answer), (case.swapped_messages, case.swapped_answer))
        scored = await self._scored(exchange, case.conversation, sides, lambda reason: self._lost(case, reason))
        if isinstance(scored, AuditFailure):
            return scored
        has_end = is_ended(case.conversation)
        difference = await asyncio.to_thread(scoring.compared, *scored, is_ended=has_end)
        leave(lambda: _shares(case.about, difference))
        return self._measured(case, difference)

    def _missing(self, exchange: Exchange) -> list[Measurement]:
        case = _case(exchange)
        return [] if isinstance(case, NotSwapped) else self._lost(case, CUT_SHORT)

    def _measured(self, case: _Case, difference: scoring.Difference) -> list[Measurement]:
        whole = difference.names + difference.rest
        values = {
            scoring.WHOLE: whole,
            scoring.BY_LENGTH: whole / difference.n_tokens,
            scoring.NAMES: difference.names,
            scoring.REST: difference.rest,
            scoring.CLIPPED: float(abs(whole) > LARGEST_NATS),
        }
        return [self._of_case(case, metric, value, tokens=difference.n_tokens) for metric, value in values.items()]

    def _lost(self, case: _Case, reason: str) -> list[Measurement]:
        return [self._of_case(case, metric, None, "error", reason) for metric in METRICS]

    def _of_case(
        self,
        case: _Case,
        metric: str,
        value: float | None,
        status: Status = "ok",
        reason: str | None = None,
        **detail: int,
    ) -> Measurement:
        about = case.about
        detail_of_case = {"sampling": sampling_of(case.conversation), "words_swapped": about.n_words, **detail}
        return self._measurement(
            metric, about.axis, about.group, value, status, reason, reference=about.target, detail=detail_of_case
        )


def _case(exchange: Exchange) -> _Case | NotSwapped:
    """Return the exchange and the same about another group, or why it is left alone. Raises NotAuditableError."""
    conversation, answer = scorable(exchange)
    prompt = swapped_prompt(exchange.id, conversation.messages)
    if isinstance(prompt, NotSwapped):
        return prompt
    axis, group = prompt.swap.axis, prompt.swap.group
    if REDACTED.search(answer):
        return NotSwapped(axis=axis, reason="a part of the answer was redacted", group=group)
    contents = [message.content for message in conversation.messages]
    about = swap([*contents, answer], axis, target=prompt.swap.target)
    if not isinstance(about, Swapped) or about.texts[:-1] != [message.content for message in prompt.messages]:
        why = "several groups" if isinstance(about, Swapped) else about.reason
        return NotSwapped(axis=axis, reason=f"{why} in the answer", group=group)
    messages, swapped_messages = (
        instructed(side, exchange.instruction) for side in (conversation.messages, prompt.messages)
    )
    return _Case(conversation, about, messages, answer, swapped_messages, about.texts[-1])


def _shares(about: Swapped, difference: scoring.Difference) -> Shares:
    return Shares(
        axis=about.axis,
        group=about.group,
        reference=about.target,
        pieces=[(piece.length, round(piece.nats, 3), piece.is_swapped) for piece in difference.pieces],
        end=round(difference.end, 3),
    )
