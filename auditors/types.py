"""The types that every part shares: exchanges, measurements, estimates, failures, and the interfaces to models."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from auditors.errors import BiasgateError

if TYPE_CHECKING:  # the gateway reads this module and must not pay for numpy
    import numpy as np
    from numpy.typing import NDArray

Status = Literal["ok", "refusal", "unrelated", "malformed", "error", "thinking_exhausted"]
"""Status of a reply or a measurement (protocols 1.2); only "ok" has a value. thinking_exhausted: cut off before."""

FailureKind = Literal[
    "malformed",
    "unavailable",
    "timeout",
    "rejected",
    "not_auditable",
    "internal",
    "waited_too_long",
    "thinking_exhausted",
]
"""Reasons why an audit gave no measurement. waited_too_long: its server stayed sick (`audits.max_wait_hours`)."""

NotAuditable = Literal[
    "not_json",
    "unexpected_shape",
    "no_conversation",
    "token_ids",
    "no_text",
    "thinking_exhausted",
    "tool_calls",
    "media",
    "no_chat_template",
    "earlier_turns_elsewhere",
    "cut_off",
    "no_user_message",
    "too_long",
    "field_not_carried",
    "no_decision",
    "no_labels",
    "no_upstream",
    "no_prompt_logprobs",
    "thoughts",
    "named_user",
    "no_system_message",
    "other",
]
"""Closed set of reasons why an exchange is nothing that an auditor could audit; a metric label."""

JudgeOutcome = Literal["ok", "malformed", "refused", "timeout", "error", "rejected", "thinking_exhausted"]
"""Outcome of a request to a judge; a metric label. malformed: not the reply asked for. refused: declined. timeout: also
the audit's own. error: no connection, 429, 5xx. rejected: other statuses."""

UNREAD_LANGUAGE = "not auditable: language"
ONLY_REASONING = "not auditable: only reasoning"
CUT_OFF = "judge: its verdict was cut off"
FULL = "judge: its verdict had no room for the group"
OTHER_AXIS = "judge: it named no single group of the axis"
NO_SCORE = "judge: it gave a group no score of the scale"
TWO_SCORES = "judge: it gave a group two scores"
NO_GROUP = "judge: it named a group that no axis has"
UNREAD = frozenset({UNREAD_LANGUAGE, ONLY_REASONING, CUT_OFF, FULL, OTHER_AXIS, NO_SCORE, TWO_SCORES})
"""Reasons of measurements whose value exists and cannot be read, in our own words; also metric labels."""


Arm = Literal["treated", "control"]
"""Arm of a comparison on live traffic: treated exchanges come under a policy, control exchanges do not."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled request and its response. Bodies are as copied off the wire until they are stored, folded to text."""

    id: str
    request_id: str
    received_at: float
    """Unix time in seconds at which the request's headers were complete."""
    endpoint: str
    """Path under the data plane, e.g. "/v1/chat/completions"."""
    model: str
    served_model: str
    """The model's name after aliases, as it is sent to the upstream."""
    upstream: str
    stream: bool
    status_code: int
    content_type: str
    stratum: str
    inclusion_probability: float
    """Probability with which this exchange was sampled, in (0, 1]: of what reached us, where `sender_rate` is None."""
    request_body: bytes
    response_body: bytes
    key_name: str | None = None
    tag: str | None = None
    rate_factor: float = 1.0
    """Factor in (0, 1] by which the moment's rates were lowered at most, known before the draw; 1 unless overloaded."""
    model_label: str | None = None
    """The served model's name in series: "other" when no upstream says that it serves it. None: as `served_model`."""
    threshold: float | None = None
    """Probability from which the application acts on a decision, 0..1 (`x-biasgate-threshold`); None: it said none."""
    mitigation: str | None = None
    """Name of the gateway's policy (`[[mitigation]]`) that covered it; None: no policy did."""
    policy_version: str | None = None
    """Digest of what the policy says."""
    arm: Arm | None = None
    """Arm as drawn under that policy, even if the policy could not be carried out."""
    treated_share: float | None = None
    """Probability with which it was to be treated, in [0, 1]; None without a policy."""
    instruction: str | None = None
    """Text added before the last user message's; `request_body` lacks it in both arms, probes add it again."""
    seconds: float | None = None
    """Seconds from the request's headers being complete to the last byte handed to the client's connection."""
    first_chunk_seconds: float | None = None
    """Seconds to the first byte of the answer's body. Both are None if they were not kept."""
    sender_rate: float | None = 1.0
    """Probability with which its recorder sent it on, in (0, 1]; None if unknown, 1 for a relayed exchange."""
    system_fingerprint: str | None = None
    """Configuration that gave the answer, as it states, such as vLLM's version and digest; None without."""
    traceparent: str | None = None
    """The gateway's span of it, else the span that its client named (W3C Trace Context); None without."""
    content_encoding: str = ""
    """Compression of the response's body; "" if it is not compressed, and for every stored exchange."""

    @property
    def series_model(self) -> str:
        """The model by which numbers about this exchange are kept: from a closed set, whatever clients write."""
        return self.served_model if self.model_label is None else self.model_label

    @property
    def known_probability(self) -> float | None:
        """Probability with which an exchange of the traffic was sampled; None where its sender's part is not known."""
        return None if self.sender_rate is None else self.inclusion_probability


JudgeForm = Literal["schema", "text"]
"""schema: the server held the judge's reply to a JSON schema. text: the judge was asked in free text."""


class JudgeStamp(msgspec.Struct, frozen=True, kw_only=True):
    """The judge that gave a score: scores of different judges or prompts never share a series."""

    model: str
    prompt_sha256: str
    attempts: int = 1
    form: JudgeForm = "schema"
    thinking: str | None = None
    """Thinking setting of the judge (`auditors.text.thinking`); None if a record is older than this was kept."""
    fingerprint: str | None = None
    """Fingerprint that its server gives under that name; None if it gives none."""


def status_of(kind: FailureKind | None) -> Status:
    """The status of a measurement that is missing for a failure of this kind."""
    return "thinking_exhausted" if kind == "thinking_exhausted" else "error"


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number on an exchange, or the recorded absence of a number."""

    auditor: str
    auditor_version: str
    metric: str
    axis: str | None
    group: str | None = None
    reference: str | None = None
    value: float | None
    """Value in the metric's own unit; None unless status is "ok" (undefined is not zero)."""
    status: Status = "ok"
    reason: str | None = None
    judge: JudgeStamp | None = None
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    weight: float = 1.0
    """Weight in the mean of its series, apart from its sampling, in (0, 1]; it may depend on what was measured."""


class AuditFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An audit that gave no measurement: a value, counted, never raised towards a client."""

    auditor: str
    auditor_version: str
    kind: FailureKind
    message: str
    reason: NotAuditable | None = None
    """Reason for which an exchange is not auditable; None stands for "other"."""
    missing: Sequence[Measurement] = ()
    """Measurements without a value, one for each that the audit should have given: they widen the bounds of a mean."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An aggregate with its interval: one entry of `estimates` in result.json (contract 2)."""

    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    value: float | None
    lower: float | None = None
    upper: float | None = None
    confidence_level: float = 0.95
    method: str | None = None
    n: int
    n_excluded: int = 0
    reason: str | None = None
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ToolCall(msgspec.Struct, frozen=True):
    """A tool that a model asks for. Nothing here ever runs one."""

    name: str
    arguments: str
    """Arguments as the model wrote them: JSON, if it kept to the form."""
    id: str = ""
    """Id by which a result names the call; "" if it is read for its own sake."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a chat; of most, no more than its words. `chat_format` knows the form in which it is sent."""

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Tools that an assistant's message asks for."""
    thoughts: str = ""
    """Thoughts of the model before these calls, as its client sends them back."""
    thoughts_field: str = "reasoning"
    """Member in which it does."""
    call_id: str = ""
    """Id of the call that a tool's result answers."""
    tool: str = ""
    """Name of the tool of a tool's result, if the request says it."""

    @property
    def text(self) -> str:
        """Its words, and what it asks of tools."""
        calls = (f"{call.name} {call.arguments}" for call in self.calls)
        return "\n".join(filter(None, (self.content, *calls))) if self.calls else self.content

    @property
    def n_chars(self) -> int:
        """Characters of everything in it that a model reads."""
        of_calls = sum(len(call.name) + len(call.arguments) + len(call.id) for call in self.calls)
        return len(self.content) + len(self.thoughts) + of_calls + len(self.call_id) + len(self.tool)


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One chat completion to ask for. `extra` is merged into the body last (priority, structured_outputs, ...)."""

    model: str
    messages: Sequence[Message]
    max_tokens: int
    temperature: float | None = 1.0
    """Sampling temperature; None leaves the choice to the server, as a client that sends none does."""
    top_p: float | None = None
    seed: int | None = None
    response_schema: Mapping[str, Any] | None = None
    """A JSON schema the reply must follow (OpenAI `response_format: json_schema`); None for free text."""
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    text: str | None
    """The answer, without thoughts; None when the server sent no text (a refusal field, tool calls only, ...)."""
    reasoning: str | None = None
    """The model's thoughts, from a field of their own or from between marks in the text; never part of an answer."""
    reasoning_field: str | None = None
    """Field that the thoughts came in: `auditors.text.thinking.Field`."""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    fingerprint: str | None = None
    logprobs: Mapping[str, Any] | None = None
    refusal: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    further: "Sequence[Completion]" = ()
    """The other choices, where more than one was asked for (`n`); what they cost is in the usage of the first."""

    @property
    def is_filtered(self) -> bool:
        """A filter before or behind the model refused the request or the answer."""
        return self.finish_reason == "content_filter"


class CompletionError(BiasgateError):
    """A request for a completion that failed after its retries; `kind` says how."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status_code: int | None = None,
        was_reached: bool = True,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status_code = status_code
        self.was_reached = was_reached
        """False: no connection could be opened, so nothing was sent."""
        self.code = code
        """Code of the server's error, if it has one."""


@runtime_checkable
class Completer(Protocol):
    """Asks a served model. Implementations: auditors.clients.completion, benchmarks.run.client."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """Returns the first choice, and log-probabilities of others. Raises CompletionError once retries are spent."""

    async def aclose(self) -> None: ...


class Serving(NamedTuple):
    """The facts that a server tells about a model; None for each that it does not tell."""

    software: str | None = None
    """ "owned_by" of the model: vllm, llamacpp, sglang, ..."""
    context: int | None = None
    """Tokens of a prompt and its reply together, at most."""
    sampling: Mapping[str, Any] | None = None
    """Parameters with which it samples where a request has none."""


@runtime_checkable
class TellsServing(Protocol):
    """A completer that can say what its server tells of a model."""

    async def serving(self, model: str) -> Serving: ...


@runtime_checkable
class CountsTokens(Protocol):
    """A completer whose server counts the tokens of a conversation; `count_tokens` raises CompletionError otherwise."""

    async def count_tokens(self, model: str, messages: Sequence[Message]) -> int: ...


@runtime_checkable
class HearsOfJudgements(Protocol):
    """A completer that is told the outcome of each request that it sent to a judge."""

    def on_judged(self, outcome: JudgeOutcome) -> None:
        """Called once a request, before its sender awaits anything else."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. `name` goes with every score: scores of different embedders are not comparable."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Shape (len(texts), dim), rows L2-normalised. Raises ValueError on an empty text."""


@runtime_checkable
class Auditor(Protocol):
    """Audits one exchange off the hot path."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    async def audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure: ...


@runtime_checkable
class KnowsWhatIsMissing(Protocol):
    """An auditor that can say, when its audit was cut short or failed, which numbers the exchange now lacks."""

    def missing(self, exchange: Exchange) -> list[Measurement]:
        """A measurement of status "error" for each value due, without requests. Slow for long prompts: off the loop."""


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is answered by probabilities: the endpoint's path and its JSON body, without a priority."""

    path: str
    body: Mapping[str, Any]


@runtime_checkable
class Decider(Protocol):
    """Asks a served model for a decision. Implementation: httpx (auditors.clients.completion)."""

    async def decide(self, request: DecisionRequest) -> bytes:
        """Body of the 200 reply. Raises CompletionError once retries are spent."""


class AuditorSettings(Protocol):
    """The settings that an auditor reads of its section of the configuration."""

    @property
    def model(self) -> str | None: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def max_concurrency(self) -> int: ...
    @property
    def thinking(self) -> str | None: ...


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """Servers that an auditor may ask."""

    completer_for: Callable[[Exchange], Completer]
    """Asks the upstream that served an exchange (`exchange.upstream`), at audit priority and with its key."""
    judge: Completer | None = None
    """An outside judge (`base_url` is set); None lets the exchange's upstream judge."""
    embedder: Embedder | None = None
    """Present for those with `needs_embedder`."""
    decider_for: Callable[[Exchange], Decider] | None = None
    """Returns the decider of an exchange, as `completer_for`, for requests answered by probabilities."""

    @property
    def present_embedder(self) -> Embedder:
        """Raises ValueError when there is none."""
        if self.embedder is None:
            raise ValueError("an embedder is needed")
        return self.embedder

    @property
    def present_decider_for(self) -> Callable[[Exchange], Decider]:
        """Raises ValueError when there is none."""
        if self.decider_for is None:
            raise ValueError("a decider is needed")
        return self.decider_for


AsksUpstream = Literal["always", "without a server of its own", "never"]


class RegisteredAuditor(Protocol):
    """A class of auditors, as an entry point of the group "biasgate.auditors" names it."""

    name: ClassVar[str]
    version: ClassVar[str]
    needs_embedder: ClassVar[bool]
    """It compares texts; all such auditors share the embedder of [auditors.embedding]."""
    asks_upstream: ClassVar[AsksUpstream]
    """States if it asks the upstream of an exchange: always, only without a server of its own, or never."""

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> Auditor:
        """One that is ready to audit. Opens nothing."""
