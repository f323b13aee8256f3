"""Finds the policy of `[[mitigation]]` that a request comes under (the first that matches), and its arm.
The arm is an HMAC under the sampling secret, apart from sampling's draw, of the exchange's id or of the conversation.
Nothing is remembered: every worker and gateway with the secret draws the same arm from what each turn repeats: the key,
the user that the client names, and that user's first message. System prompts, which may hold the time, are left out.
"""

import hashlib
import hmac
from typing import Any, NamedTuple

import msgspec

from auditors.types import Arm
from gateway.config.schema import QUESTION_MEMBERS, Config
from gateway.features.mitigation.arms import BY_CONVERSATION, ID_CHARACTERS
from gateway.features.mitigation.config import MITIGATION, MitigationConfig
from gateway.features.mitigation.filter_plan import FilterPlan, plan_of
from gateway.features.mitigation.instruction import Turn, decode_elements, decode_part
from gateway.features.mitigation.policy_checks import instruction_of, policy_name
from gateway.proxy.target import path_of
from gateway.sampling.decision import fraction

LONGEST_TEXT = 64 * 1024
"""Bytes of a text that are hashed; of a longer text its two ends and its length."""
MOST_PARTS = 64
"""Parts of a message that are hashed."""
MOST_TURNS = 10_000
"""Turns of a conversation that is looked through: as many as a sentence can be added to."""

_RANGE = 2**53


class _Chat(msgspec.Struct, gc=False):
    messages: list[Turn]
    user: msgspec.Raw = msgspec.Raw(b"")
    safety_identifier: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_key: msgspec.Raw = msgspec.Raw(b"")
    metadata: Any = None


class _Responses(msgspec.Struct, gc=False):
    input: list[Turn] | str = ""
    conversation: Any = None
    previous_response_id: Any = None
    user: msgspec.Raw = msgspec.Raw(b"")
    safety_identifier: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_key: msgspec.Raw = msgspec.Raw(b"")
    metadata: Any = None


_chat = msgspec.json.Decoder(_Chat).decode
_responses = msgspec.json.Decoder(_Responses).decode
_string = msgspec.json.Decoder(str).decode


class Draw(NamedTuple):
    """Result of the draw for a conversation, or for a request that belongs to none."""

    fraction: float
    """Number in [0, 1), uniform over conversations."""
    unit: str
    """ID_CHARACTERS hexadecimal digits that stand for the conversation; they tell nothing about its text."""


def draw(secret: bytes, policy: str, key: str | None, identity: list[bytes]) -> Draw:
    """Draw for a conversation of a key by HMAC-SHA256: equal for its turns in all gateways, apart by policy."""
    hashed = hashlib.sha256()
    for part in identity:
        hashed.update(len(part).to_bytes(8))
        hashed.update(part)
    message = msgspec.json.encode(["conversation", policy, key, hashed.hexdigest()])
    digest = hmac.digest(secret, message, "sha256")
    return Draw((int.from_bytes(digest[:8]) >> 11) / _RANGE, digest[8 : 8 + ID_CHARACTERS // 2].hex())


def conversation_of(content: bytes, endpoint: str) -> list[bytes] | None:
    """Return what identifies a request's conversation; None for /v1/completions, a `previous_response_id` alone, no
    message of a user, or a body that is not JSON of the endpoint's form.
    """
    try:
        if endpoint == "/v1/responses":
            body = _responses(content)
            conversation = body.conversation.get("id") if isinstance(body.conversation, dict) else body.conversation
            if isinstance(conversation, str) and conversation:
                return [b"id", conversation.encode("utf-8", "surrogatepass")]
            if body.previous_response_id is not None:
                return None
            if isinstance(body.input, str):
                return [b"text", *_named(body), _ends(body.input.encode())] if body.input else None
            return _of_turns(body.input, body)
        if endpoint == "/v1/completions":
            return None
        chat = _chat(content)
        return _of_turns(chat.messages, chat)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def identity_of_header(lines: list[bytes], prefix: bytes) -> list[bytes] | None:
    """Return what identifies the conversation by a header of the client's own, `prefix` being its name and ": "."""
    return next(([b"header", line] for line in lines if line.startswith(prefix)), None)


def _of_turns(turns: list[Turn], body: _Chat | _Responses) -> list[bytes] | None:
    if len(turns) > MOST_TURNS:
        return None
    first = next((turn for turn in turns if turn.role == "user"), None)
    return None if first is None else [b"text", *_named(body), *_texts(bytes(first.content))]


def _named(body: _Chat | _Responses) -> list[bytes]:
    user = body.metadata.get("user_id") if isinstance(body.metadata, dict) else None
    named = [bytes(raw) for raw in (body.user, body.safety_identifier, body.prompt_cache_key)]
    return [_ends(value) for value in (*named, user.encode() if isinstance(user, str) else b"")]


def _texts(content: bytes) -> list[bytes]:
    """Return the texts of a message, in one string or in parts, without marks such as `cache_control`, which wander."""
    if content[:1] != b"[":
        return [_text(content)]
    return [_text(_text_of(bytes(part))) for part in decode_elements(content)[:MOST_PARTS]]


def _text_of(part: bytes) -> bytes:
    return (bytes(decode_part(part).text) or part) if part[:1] == b"{" else part


def _text(value: bytes) -> bytes:
    """Return a string as it reads, independent of the escapes in its JSON; any other value as it is written."""
    return _ends(_string(value).encode() if value[:1] == b'"' and len(value) <= LONGEST_TEXT else value)


def _ends(text: bytes) -> bytes:
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return b"%b%d%b" % (text[:half], len(text), text[-half:])


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
    """Digest of all fields in 12 characters, first BY_CONVERSATION where that is the unit; versions share no mean."""

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
        """Return policy and endpoint; None for a request relayed as it is. `model`: after aliases, or None."""
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
        """Return the arm, and what stands for the conversation. `policy`: of `of`. `lines`: headers, names in small
        letters. `exchange_id` decides where no conversation can be told; two keys have none in common.
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
    """See `Draw`; None where the arm was drawn for the request alone."""


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
