"""A policy carried out on one request: what is sent on in place of it, and what is said and counted of that."""

from typing import Literal

from auditors.types import Arm
from gateway.features.mitigation.instruction import MOST_ELEMENTS, with_instruction
from gateway.features.mitigation.policies import Policy
from gateway.proxy.body import RequestBody, TooManyMembersError
from gateway.proxy.refusals import Refusal
from gateway.proxy.types import AnswerFilter, RequestStats


def too_many_parts(limit: int) -> Refusal:
    return Refusal(
        400,
        "invalid_body",
        f"the body has more than {limit} messages, parts or members, among which its question would have to be found",
    )


def mitigation_impossible(policy: str) -> Refusal:
    return Refusal(
        400,
        "mitigation_impossible",
        f'policy "{policy}" of this gateway adds a sentence to each request, and this one has no text to add it to: '
        "ask in text, as JSON",
    )


def filter_impossible(policy: str, why: str) -> Refusal:
    return Refusal(400, "mitigation_impossible", f'policy "{policy}" of this gateway {why}')


def filter_unavailable(policy: str, filter: str, why: str) -> Refusal:
    return Refusal(
        503,
        "mitigation_unavailable",
        f'the {filter} of policy "{policy}" of this gateway {why}, and nothing passes without it: try again',
        retry_after_seconds=1,
    )


def query_refused(policy: str) -> Refusal:
    return Refusal(
        400,
        "query_refused",
        f'the query filter of policy "{policy}" of this gateway finds the request biased: ask without the premise',
    )


def response_refused(policy: str) -> Refusal:
    return Refusal(
        400, "response_refused", f'the response filter of policy "{policy}" of this gateway finds the answer biased'
    )


InstructionOutcome = Literal["added", "held_back", "unsupported", "refused", "not_needed"]
"""added: the sentence was put in. held_back: the exchange is of the control arm. unsupported: the request has no place
for a sentence and was passed as it is. refused: the same, and it was refused. not_needed: no filter asked for it."""


class Treatment:
    """See `gateway.proxy.types.Treatment`; of a policy without filters."""

    has_filters = False
    has_query_filter = False
    query_seconds = 0.0
    answer_filter: AnswerFilter | None = None

    def __init__(self, policy: Policy, endpoint: str, arm: Arm, unit: str | None = None) -> None:
        self._policy = policy
        self._endpoint = endpoint
        self.policy = policy.name
        self.version = policy.version
        self.arm = arm
        self.unit = unit
        self.share = policy.share
        self.instruction: str | None = None
        self._outcome: InstructionOutcome = "held_back"

    def apply(self, body: RequestBody) -> bytes | Refusal:
        instruction = self._policy.instruction
        if self.arm == "control" or instruction is None:
            return body.content
        try:
            changed = with_instruction(body.content, self._endpoint, instruction)
        except TooManyMembersError:
            # Passed, whoever sends enough of them would be out of the policy's reach.
            self._outcome = "refused"
            return too_many_parts(MOST_ELEMENTS)
        if changed is not None:
            self.instruction = instruction
            self._outcome = "added"
            return changed
        if self._policy.is_required:
            self._outcome = "refused"
            return mitigation_impossible(self.policy)
        self._outcome = "unsupported"
        return body.content

    async def filtered(self, body: RequestBody) -> bytes | Refusal:
        return self.apply(body)

    def _said(self) -> str:
        did = self._policy.instruction_name if self._outcome == "added" else self._outcome
        return f"policy={self.policy}; arm={self.arm}; instruction={did}"

    @property
    def header_line(self) -> bytes:
        return b"x-biasgate-mitigation: " + self._said().encode("ascii") + b"\r\n"

    def count(self, stats: RequestStats) -> None:
        stats.mitigated(self.policy, "instruction", self._outcome)
