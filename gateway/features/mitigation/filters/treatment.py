"""A policy with filters carried out on one request."""

import logging
from time import perf_counter
from typing import Literal

from auditors.types import Arm
from gateway.features.mitigation.config import FILTERED_ENDPOINTS
from gateway.features.mitigation.filters.answer import AnswerRun
from gateway.features.mitigation.filters.filter import Excerpt, Finding, HeldBytes, PolicyFilters
from gateway.features.mitigation.instruction import MOST_ELEMENTS, question_texts, with_instruction
from gateway.features.mitigation.policies import Policy
from gateway.features.mitigation.treatment import (
    Treatment,
    filter_impossible,
    filter_unavailable,
    query_refused,
    too_many_parts,
)
from gateway.proxy.body import RequestBody, TooManyMembersError
from gateway.proxy.refusals import Refusal
from gateway.proxy.types import AnswerFilter, RequestStats

logger = logging.getLogger(__name__)

QueryOutcome = Literal["clean", "instructed", "refused", "timed_out", "failed", "unsupported", "held_back"]
"""held_back: the exchange is of the control arm. unsupported: the request has no text that the filter could look at."""


class FilteredTreatment(Treatment):
    """See `gateway.proxy.types.Treatment`."""

    has_filters = True

    def __init__(
        self, policy: Policy, endpoint: str, arm: Arm, filters: PolicyFilters, held: HeldBytes, unit: str | None = None
    ) -> None:
        super().__init__(policy, endpoint, arm, unit)
        self._filters = filters
        self._held = held
        self._run: AnswerRun | None = None
        self._sent = b""
        """The body that goes on, where it may be asked again."""
        self._query_outcome: QueryOutcome | None = None
        self._answer_impossible = False
        if arm == "control":
            self._query_outcome = "held_back" if filters.query else None
        elif policy.instruction is not None:
            self._outcome = "not_needed"
        self.has_query_filter = arm == "treated" and filters.query is not None

    @property
    def answer_filter(self) -> AnswerFilter | None:  # type: ignore[override]  # made when it is known
        return self._run

    async def filtered(self, body: RequestBody) -> bytes | Refusal:
        began = perf_counter()
        try:
            filter, policy = self._filters.query, self._policy
            if filter is None:
                return self.apply(body)
            try:
                texts = question_texts(body.content, self._endpoint)
            except TooManyMembersError:
                self._query_outcome = "refused"
                return too_many_parts(MOST_ELEMENTS)
            question = Excerpt()
            question.add("\n".join(texts))
            finding: Finding = "unsupported"
            if question.text.strip():
                finding = await filter.look([question], demands_all=policy.is_required)
            if finding == "biased":
                if filter.plan.then == "refuse":
                    self._query_outcome = "refused"
                    return query_refused(self.policy)
                self._query_outcome = "instructed"
                return self._passed(body, instructs=True)
            self._query_outcome = finding
            if finding == "clean" or not policy.is_required:
                return self._passed(body, instructs=filter.plan.then != "instruct")
            if finding == "unsupported":
                what = "has no text, ask in text, as JSON" if not texts else "has more text than it looks at"
                return filter_impossible(self.policy, f"looks at each request, and this one {what}")
            return self._unavailable("gave no verdict in time" if finding == "timed_out" else "cannot be asked")
        except Exception:
            logger.exception('the query filter of policy "%s" failed', self.policy)
            self._query_outcome = "failed"
            return self._unavailable("failed") if self._policy.is_required else self._passed(body, instructs=False)
        finally:
            self.query_seconds = perf_counter() - began

    def _unavailable(self, why: str) -> Refusal:
        return filter_unavailable(self.policy, "query filter", why)

    def apply(self, body: RequestBody) -> bytes | Refusal:
        return self._passed(body, instructs=True)

    def _passed(self, body: RequestBody, *, instructs: bool) -> bytes | Refusal:
        """Return the body that goes on, with the instruction unless that waits for a filter that asks for it."""
        response = self._filters.response
        if self.arm == "control":
            return body.content
        waits = response is not None and response.plan.then == "instruct" and self._query_outcome != "instructed"
        content: bytes | Refusal = body.content
        if instructs and not waits and self._policy.instruction is not None:
            content = super().apply(body)
        if isinstance(content, Refusal) or response is None:
            return content
        if self._policy.is_required and self._endpoint not in FILTERED_ENDPOINTS:
            self._answer_impossible = True
            return filter_impossible(self.policy, f"looks at each answer, and not at those of {self._endpoint}")
        if response.plan.then == "instruct":
            self._sent = content
        self._run = AnswerRun(
            self.policy,
            response,
            self._endpoint,
            self._held,
            is_required=self._policy.is_required,
            again=self._asked_again,
        )
        return content

    def _asked_again(self) -> bytes | None:
        """The request with the instruction; None where it has it already, or cannot carry it."""
        instruction = self._policy.instruction
        if self._outcome == "added" or instruction is None:
            return None
        try:
            content = with_instruction(self._sent, self._endpoint, instruction)
        except TooManyMembersError:
            return None
        if content is not None:
            self._outcome = "added"
            self.instruction = instruction
        return content

    def _said(self) -> str:
        parts = [super()._said()] if self._policy.instruction is not None else [f"policy={self.policy}; arm={self.arm}"]
        if self._query_outcome is not None:
            parts.append(f"query={self._query_outcome}")
        if self._filters.response is not None and (answer := self._answer_outcome or self._so_far):
            parts.append(f"response={answer}")
        return "; ".join(parts)

    @property
    def _answer_outcome(self) -> str | None:
        if self._filters.response is None:
            return None
        if self.arm == "control":
            return "held_back"
        if self._answer_impossible:
            return "unsupported"
        return None if self._run is None else self._run.outcome

    @property
    def _so_far(self) -> str | None:
        """The outcome of a stream, whose end is not known when its head goes out."""
        return "streamed" if self._run is not None and self._run.has_begun_to_pass else None

    def count(self, stats: RequestStats) -> None:
        if self._policy.instruction is not None:
            super().count(stats)
        if self._filters.query is not None:
            stats.mitigated(self.policy, "query_filter", self._query_outcome or "abandoned")
        if self._filters.response is not None and (self._run is not None or self._answer_outcome is not None):
            stats.mitigated(self.policy, "response_filter", self._answer_outcome or "abandoned")
        if self.query_seconds:
            stats.mitigation_took(self.policy, "query_filter", self.query_seconds)
        if self._run is not None and self._run.seconds is not None:
            stats.mitigation_took(self.policy, "response_filter", self._run.seconds)
