"""A policy carried out on one request: what is sent on in place of it, and what is said and counted of that."""

from typing import Literal

from auditors.types import Arm
from gateway.config.schema import Config
from gateway.mitigation.instruction import MOST_ELEMENTS, with_instruction
from gateway.mitigation.policies import Policies, Policy
from gateway.proxy.body import RequestBody, TooManyMembersError
from gateway.proxy.refusals import Refusal, mitigation_impossible, too_many_parts
from gateway.proxy.types import RequestStats

InstructionOutcome = Literal["added", "held_back", "unsupported", "refused"]
"""added: the sentence was put in. held_back: the exchange is of the control arm. unsupported: the request has no place
for a sentence and was passed as it is. refused: the same, and it was refused."""


class Mitigation:
    """See `gateway.proxy.types.Mitigation`: what a worker does by the policies of one configuration."""

    def __init__(self, config: Config, secret: bytes) -> None:
        self._policies = Policies(config, secret)

    def treatment(
        self, *, method: bytes, path: bytes, key: str | None, model: str | None, exchange_id: str
    ) -> "Treatment | None":
        found = self._policies.of(method, path, key, model)
        if found is None:
            return None
        policy, endpoint = found
        return Treatment(policy, endpoint, self._policies.arm(policy, exchange_id))


def mitigation_of(config: Config, secret: bytes) -> Mitigation | None:
    """None without a policy: then nothing at all is asked of a request."""
    return Mitigation(config, secret) if config.mitigation else None


class Treatment:
    """See `gateway.proxy.types.Treatment`."""

    def __init__(self, policy: Policy, endpoint: str, arm: Arm) -> None:
        self._policy = policy
        self._endpoint = endpoint
        self.policy = policy.name
        self.version = policy.version
        self.arm = arm
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

    @property
    def header_line(self) -> bytes:
        did = self._policy.instruction_name if self._outcome == "added" else self._outcome
        said = f"policy={self.policy}; arm={self.arm}; instruction={did}"
        return b"x-biasgate-mitigation: " + said.encode("ascii") + b"\r\n"

    def count(self, stats: RequestStats) -> None:
        stats.mitigated(self.policy, "instruction", self._outcome)
