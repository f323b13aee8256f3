"""Finds the policy of `[[mitigation]]` that a request comes under, and its arm.

The first policy that matches holds. Its arm is an HMAC under the sampling secret of the conversation that the request
belongs to (see `conversations`), or of the exchange's id, which the gateway draws itself; the draw has nothing to do
with that of sampling.
"""

import hashlib
from typing import NamedTuple

import msgspec

from auditors.streams.arms import BY_CONVERSATION
from auditors.types import Arm
from gateway.config.schema import QUESTION_MEMBERS, Config
from gateway.features.mitigation.config import MITIGATION, MitigationConfig
from gateway.features.mitigation.conversations import conversation_of, draw, identity_of_header
from gateway.features.mitigation.filter_plan import FilterPlan, plan_of
from gateway.features.mitigation.policy_texts import instruction_of, policy_name
from gateway.proxy.target import path_of
from gateway.sampling.decision import fraction

VERSION_CHARACTERS = 12
_ENDPOINTS = {path.encode(): path for path in QUESTION_MEMBERS}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One policy, ready to be carried out."""

    name: str
    route: str | None
    key: str | None
    model: str | None
    share: float
    instruction_name: str
    """none, abstract, detailed, or "file:" and the beginning of the text's sha256."""
    instruction: str | None
    """Text that is added; None for nothing."""
    is_required: bool
    """True where a request that the policy cannot be carried out on is refused instead of passed."""

    query: FilterPlan | None = None
    response: FilterPlan | None = None
    unit: str = "request"
    """conversation or request; what treats all or none has no need of the former."""
    conversation_header: str | None = None
    """Name of the header in small letters."""
    version: str = ""
    """Twelve characters of all of this: numbers of two versions belong in no mean together. Hexadecimal digits, of
    which the first is BY_CONVERSATION where the unit is the conversation."""

    @property
    def does_nothing(self) -> bool:
        """It exempts what it matches from the policies behind it."""
        return self.instruction is None and not self.has_filters

    @property
    def has_filters(self) -> bool:
        return self.query is not None or self.response is not None

    def covers(self, endpoint: str, key: str | None, model: str | None) -> bool:
        """Return whether it is for such a request. A request that names no model may be answered by any."""
        return (
            (self.route is None or self.route == endpoint)
            and (self.key is None or self.key == key)
            and (self.model is None or model is None or self.model == model)
        )


class Policies:
    """All policies of a configuration. Raises ConfigError when the file of an instruction cannot be read."""

    def __init__(self, config: Config, secret: bytes) -> None:
        self.all = [_policy(section, place) for place, section in enumerate(MITIGATION.of(config), 1)]
        self._secret = secret

    def of(self, method: bytes, path: bytes, key: str | None, model: str | None) -> tuple[Policy, str] | None:
        """Return the policy of a request and its endpoint; None for a request that is relayed as it is. `path`: in any
        spelling that an upstream understands; `model`: after aliases, or None.
        """
        endpoint = _ENDPOINTS.get(path) or _ENDPOINTS.get(path_of(path))
        if endpoint is None or method != b"POST":
            return None
        for policy in self.all:
            if policy.covers(endpoint, key, model):
                return None if policy.does_nothing else (policy, endpoint)
        return None

    def assign(
        self, policy: Policy, endpoint: str, *, key: str | None, lines: list[bytes], content: bytes, exchange_id: str
    ) -> "Assignment":
        """Return the arm of a request, and what stands for its conversation. `policy`: as `of` returned it. `key`: of
        the client: two keys have no conversation in common. `lines`: the client's own, names in small letters.
        `exchange_id` decides where no conversation can be told.
        """
        identity = None
        if policy.unit == "conversation":
            if policy.conversation_header is not None:
                identity = identity_of_header(lines, f"{policy.conversation_header}: ".encode())
            if identity is None:
                identity = conversation_of(content, endpoint)
        if identity is None:
            return Assignment(self.arm(policy, exchange_id), None)
        drawn = draw(self._secret, policy.name, key, identity)
        return Assignment("treated" if drawn.fraction < policy.share else "control", drawn.unit)

    def arm(self, policy: Policy, exchange_id: str) -> Arm:
        """`share` of all exchanges are treated: the same ones for the same secret, and more of them at a larger one."""
        drawn = fraction(self._secret, exchange_id, purpose=f"mitigation {policy.name}")
        return "treated" if drawn < policy.share else "control"


class Assignment(NamedTuple):
    """The arm that a request was assigned to."""

    arm: Arm
    unit: str | None
    """See `gateway.features.mitigation.conversations.Draw`; None where the arm was drawn for the request alone."""


def _policy(config: MitigationConfig, place: int) -> Policy:
    is_by_conversation = config.unit == "conversation" and 0.0 < config.share < 1.0
    name, text = instruction_of(config.instruction)
    policy = Policy(
        name=policy_name(config, place),
        route=config.match.route,
        key=config.match.key,
        model=config.match.model,
        share=config.share,
        instruction_name=name,
        instruction=text,
        is_required=config.on_timeout == "refuse",
        query=plan_of(config.query_filter, "query_filter"),
        response=plan_of(config.response_filter, "response_filter"),
        unit="conversation" if is_by_conversation else "request",
        conversation_header=(config.conversation_header or "").lower() or None if is_by_conversation else None,
    )
    fields = msgspec.to_builtins(policy)
    for name in ("query", "response", "conversation_header"):  # later fields leave the versions before them as they are
        if fields[name] is None:
            del fields[name]
    if not is_by_conversation:
        del fields["unit"]
    digest = hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()
    version = (BY_CONVERSATION if is_by_conversation else "") + digest
    return msgspec.structs.replace(policy, version=version[:VERSION_CHARACTERS])
