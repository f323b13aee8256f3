"""The interfaces that the relay, which knows no store and no web framework, needs from its surroundings."""

from typing import Literal, Protocol

import msgspec

from auditors.types import Arm, Exchange
from gateway.config.schema import AUDITED_PATHS
from gateway.proxy.body import RequestBody
from gateway.proxy.headers import RequestHead, ResponseHead
from gateway.proxy.refusals import Refusal

EndReason = Literal["complete", "upstream_error", "client_disconnected", "timed_out", "rejected"]
"""Every relayed exchange ends exactly once, with one of these (contract 4)."""

FilteredReason = Literal["endpoint", "status", "content_encoding", "unfinished", "recorded"]
"""Why a request counts as filtered. endpoint: another path or method. status: an answer other than 200.
content_encoding: an answer compressed in a way that is not decoded here. unfinished: it did not end complete.
recorded: someone else recorded it, and it was one of the first two."""

AUDITABLE_ENDPOINTS = frozenset(AUDITED_PATHS)
"""POSTs to these are eligible for sampling; everything else is relayed and counted as filtered."""

LABELLED_ENDPOINTS = AUDITABLE_ENDPOINTS | {"/v1/embeddings", "/v1/models", "/v1/rerank", "/v1/score"}
"""Endpoints with a metric label of their own; any other path is labelled "other"."""


class Sampled(msgspec.Struct, frozen=True):
    """A positive sampling decision, recorded with the exchange."""

    stratum: str
    inclusion_probability: float
    rate_factor: float = 1.0
    """See `auditors.types.Exchange`."""


class SamplingRequest(msgspec.Struct, frozen=True, gc=False):
    """The facts on which a sampling decision depends."""

    exchange_id: str
    """Drawn by the gateway, never the client's."""
    eligible: bool
    """POST to one of AUDITABLE_ENDPOINTS."""
    body: bytes = b""
    """The body as the client sent it."""
    opt: str | None = None
    """Value of x-biasgate-audit ("off", "on" or None); honoured only if may_opt."""
    may_opt: bool = False
    """The client's key may opt out or in."""
    tag: str | None = None
    """Value of x-biasgate-tag, used only when configured."""
    model: str | None = None
    """The name after aliases, for strata by model."""
    route: str = ""
    """Path under the data plane, for strata by route."""
    key_name: str | None = None
    """Name of the client's key, None for an anonymous client: a key's share of the sample has a limit."""


class EndedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of a single request."""

    request_id: str
    """The client's, or the gateway's own."""
    trace_id: str = ""
    """32 hexadecimal digits; "" where the gateway began no span."""
    upstream: str
    """Configured name, or "none" when no upstream was chosen."""
    model: str
    """A name known from an upstream or alias, else "other" (closed label set)."""
    endpoint: str
    """One of LABELLED_ENDPOINTS, else "other"."""
    outcome: EndReason
    duration_seconds: float
    """Request headers complete to last byte handed to the client's socket."""
    overhead_seconds: float
    """The gateway's part, without filters' looks: head to request written, last byte received to handed on."""
    first_chunk_seconds: float | None
    """Headers complete to first body byte; None when none came."""
    was_started: bool
    """True if `RequestStats.started` was called for it."""


class Tap(Protocol):
    """Takes sampling decisions and copies of finished exchanges. Never blocks, never raises towards the relay."""

    max_copy_bytes: int

    def decide(self, request: SamplingRequest) -> Sampled | None:
        """Decides once per request, when its body is complete. Counts the outcome itself when the answer is None."""

    def is_probe(self, request_id: str, mark: str, body: bytes) -> bool:
        """Return whether x-biasgate-probe shows that an auditor with this gateway's sampling secret asked."""

    def reserve(self, size: int) -> bool:
        """Return whether a copy in the making may hold so many bytes more: memory for all copies is bounded."""

    def release(self, size: int) -> None:
        """Gives back what was reserved: the copy is about to be offered, or is given up."""

    def offer(self, exchange: Exchange) -> None:
        """Hands over the copy of a sampled exchange that ended complete with status 200."""

    def drop(self, stratum: str, outcome: Literal["filtered", "truncated", "failed"]) -> None:
        """Drop a copy: cut off or not a 200 (filtered), over the cap (truncated), without memory (failed)."""

    def filtered_for(self, reason: "FilteredReason") -> None:
        """Count why an exchange was dropped as filtered."""


class Mitigation(Protocol):
    """Treats the requests of a single configuration; `gateway.worker_part.WorkerPart.mitigation` returns it."""

    def treatment(
        self, *, method: bytes, path: bytes, key: str | None, model: str | None, head: RequestHead, content: bytes
    ) -> "Treatment | None":
        """Return the treatment, None without a policy. `key` None: anonymous. `model`: the name after aliases."""

    async def aclose(self) -> None:
        """Closes what is open, once no exchange is in flight any more."""


class Looked(msgspec.Struct, frozen=True):
    """The decision on the part of an answer that a filter holds back."""

    released: bytes = b""
    """May go out."""
    refusal: Refusal | None = None
    """Answer in place of the held part, and of all that would come."""
    asks_again: bytes | None = None
    """A body to be asked in place of the body before; nothing of its answer went out."""
    is_over: bool = False
    """The rest of the answer goes out as it comes."""


class AnswerFilter(Protocol):
    """Holds back one answer of an upstream until it was looked at."""

    def begin(self, status: int, head: ResponseHead) -> bool | Refusal:
        """Return whether the answer with this head is held; False for an answer that passes as it comes."""

    def take(self, data: bytes) -> Looked | None:
        """A piece of the body; something to be done where no more can be held."""

    def is_due(self, *, is_complete: bool) -> bool: ...

    async def look(self, *, is_complete: bool) -> Looked:
        """Look at what is held, within its time limit; never raises. `is_complete`: nothing more comes or is held."""

    def close(self) -> None:
        """Forgets what is held. Called at the exchange's end."""


class Treatment(Protocol):
    """One policy carried out on one request."""

    policy: str
    version: str
    """Digest of what the policy says."""
    arm: Arm
    share: float
    """Probability of the treated arm."""
    unit: str | None
    """Digits of the conversation, to end the exchange's id; None where the arm was drawn for the request alone."""
    instruction: str | None
    """The text that was added to the request; None before `apply`, and where none was."""

    has_filters: bool
    has_query_filter: bool
    """`filtered` is to be awaited in place of `apply`."""
    query_seconds: float
    """Seconds that the look at the request took; 0 for none, and while it goes on."""
    answer_filter: AnswerFilter | None
    """Through which the answer has to go; known once the request may go on."""

    def apply(self, body: RequestBody) -> bytes | Refusal:
        """The body to send on, or why the request is refused. Called once."""

    async def filtered(self, body: RequestBody) -> bytes | Refusal:
        """The same after a look at the request, within the policy's time limit. Never raises."""

    @property
    def header_line(self) -> bytes:
        """Return a line of the response's headers that says what was done."""

    def count(self, stats: "RequestStats") -> None:
        """Counts what was done. Called once, at the exchange's end."""


class RequestStats(Protocol):
    """Plain counts and bucket arrays; no locks on the hot path."""

    def started(self, upstream: str) -> None: ...

    def withdrawn(self, upstream: str) -> None:
        """Takes `started` back: the request will be sent again, there or elsewhere."""

    def audit_evicted(self, upstream: str, *, prompt_tokens: int, generation_tokens: int) -> None:
        """A client's audit was cut off for live requests; the tokens are an estimate of what that wasted."""

    def mitigated(self, policy: str, action: str, outcome: str) -> None:
        """Counts what a policy did with one request."""

    def mitigation_took(self, policy: str, action: str, seconds: float) -> None:
        """Adds how long a filter held up a request, or its answer."""

    def ended(self, request: EndedRequest) -> None: ...
