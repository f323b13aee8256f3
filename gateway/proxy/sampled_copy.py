"""The copy of a sampled exchange: capped in bytes, handed over only when complete. The tap's errors are only logged."""

import logging
import time
from collections.abc import Callable
from time import perf_counter
from typing import Literal, Protocol

from auditors.clients.inflating import INFLATED_ENCODINGS
from auditors.types import Exchange
from gateway.proxy.admission import Client
from gateway.proxy.body import RequestBody
from gateway.proxy.headers import RequestHead, ResponseHead
from gateway.proxy.target import path_of
from gateway.proxy.trace_context import stored_traceparent
from gateway.proxy.types import AUDITABLE_ENDPOINTS, EndReason, FilteredReason, Sampled, SamplingRequest, Tap, Treatment

logger = logging.getLogger(__name__)

LARGEST_PROBE_BYTES = 2 * 1024 * 1024
"""Most bytes of an auditor's body: their longest question (`auditors.probes`), each character escaped."""
RESERVED_AT_ONCE = 16 * 1024
"""Bytes for which the tap is asked at a time, instead of for each event."""

_AUDITABLE_PATHS = {path.encode(): path for path in AUDITABLE_ENDPOINTS}


class RelayedRequest(Protocol):
    """A client's request that goes to an upstream."""

    method: bytes
    path: bytes
    """The path without query."""
    head: RequestHead
    body: RequestBody
    """The parsed fields of the body; its content goes upstream."""
    key: Client
    started_at: float
    """time.perf_counter() at which the request's headers were complete."""

    @property
    def traceparent_line(self) -> bytes:
        """The trace context to send on; empty for none."""


def start_copy(
    tap: Tap,
    request: RelayedRequest,
    content: bytes,
    *,
    label_of: Callable[[str | None], str],
    treatment: Treatment | None = None,
) -> "SampledCopy | None":
    """Begin a copy of a request with the client's body `content`; None when not sampled. `label_of`: model to label."""
    try:
        path, head, client = request.path, request.head, request.key
        if path not in _AUDITABLE_PATHS:
            path = path_of(path)  # no spelling that an upstream understands leaves a request out
        is_left_out = not client.is_audited or is_probe(tap, head, content)
        sampled = tap.decide(
            SamplingRequest(
                head.exchange_id,
                eligible=request.method == b"POST" and path in _AUDITABLE_PATHS,
                body=content,
                opt="off" if is_left_out else head.audit,
                may_opt=client.may_opt or is_left_out,
                tag=head.tag,
                model=request.body.served_model,
                route=_AUDITABLE_PATHS.get(path, ""),
                key_name=client.name,
            )
        )
        if sampled is None:
            return None
        copy = SampledCopy(tap, sampled, request, path, content, label_of=label_of, treatment=treatment)
        return copy if copy.holds(len(content)) else None
    except Exception:  # the tap is never a reason for a request to fail
        logger.exception("sampling decision failed")
        return None


def count_as_filtered(tap: Tap, head: RequestHead) -> None:
    """Count a request in the ledger that the gateway answers by itself: a preflight, or an attempt at a WebSocket."""
    try:
        tap.decide(SamplingRequest(head.exchange_id, eligible=False))
    except Exception:  # the tap is never a reason for a request to fail
        logger.exception("counting a request failed")


def is_probe(tap: Tap, head: RequestHead, content: bytes) -> bool:
    """Return whether a holder of the sampling secret asks this. No client can make the gateway hash megabytes."""
    mark = head.probe
    if mark is None or len(content) > min(tap.max_copy_bytes, LARGEST_PROBE_BYTES):
        return False
    return tap.is_probe(head.request_id, mark, content)


class SampledCopy:
    """Collects the response of a single sampled exchange."""

    def __init__(
        self,
        tap: Tap,
        sampled: Sampled,
        request: RelayedRequest,
        path: bytes,
        content: bytes,
        *,
        label_of: Callable[[str | None], str],
        treatment: Treatment | None = None,
    ) -> None:
        """Begin as `start_copy` does; `path` is as upstreams understand it."""
        self._tap = tap
        self._sampled = sampled
        self._request = request
        self._path = path
        self._content = content
        self._label_of = label_of
        self._treatment = treatment
        self._received = bytearray()
        self._reserved = 0
        self._room = 0
        """Bytes of the response for which there is room so far."""
        self._first_chunk_at: float | None = None
        self._status = 0
        self._content_type = ""
        self._content_encoding = ""

    def accepts(self, status: int, head: ResponseHead) -> bool:
        """Return whether this response can be audited; if not, the copy is given up and counted."""
        self._status = status
        self._content_type = head.content_type.decode("latin-1")
        if status != 200:
            self._filter("status")
            return False
        if head.is_identity:
            return True
        self._content_encoding = head.content_encoding.decode("latin-1").strip()
        if self._content_encoding in INFLATED_ENCODINGS:
            return True
        self._filter("content_encoding")
        return False

    def append(self, data: bytes) -> bool:
        """Takes a piece of the response's body. False when it finds no room: the copy is given up and counted."""
        if self._first_chunk_at is None:
            self._first_chunk_at = perf_counter()
        self._received += data
        size = len(self._received)
        return size <= self._room or self._makes_room(size)

    def holds(self, size: int) -> bool:
        """Return whether a request of that many bytes is within the cap, and there is memory for it."""
        return self._fits(size) and self._reserves(size)

    def _makes_room(self, size: int) -> bool:
        if not self._fits(size):
            return False
        room = min(max(size, self._room + RESERVED_AT_ONCE), self._tap.max_copy_bytes)
        more, self._room = room - self._room, room
        return self._reserves(more)

    def _fits(self, size: int) -> bool:
        if size <= self._tap.max_copy_bytes:
            return True
        self._drop("truncated")
        return False

    def _reserves(self, size: int) -> bool:
        if self._tap.reserve(size):
            self._reserved += size
            return True
        self._drop("failed")
        return False

    def finish(self, outcome: EndReason, upstream: str) -> None:
        """Hands the copy over when the exchange is complete."""
        if outcome != "complete":
            self._filter("unfinished")
            return
        try:
            self._release()
            self._tap.offer(self._exchange(upstream))
        except Exception:
            logger.exception("handing over a sampled exchange failed")
            self._drop("failed")

    def _filter(self, reason: FilteredReason) -> None:
        self._drop("filtered")
        try:
            self._tap.filtered_for(reason)
        except Exception:
            logger.exception("counting why a copy was filtered failed")

    def _drop(self, outcome: Literal["filtered", "truncated", "failed"]) -> None:
        try:
            self._release()
            self._tap.drop(self._sampled.stratum, outcome)
        except Exception:
            logger.exception("counting a dropped copy failed")

    def _release(self) -> None:
        reserved, self._reserved = self._reserved, 0
        self._tap.release(reserved)

    def _exchange(self, upstream: str) -> Exchange:
        request, sampled, treatment, first = self._request, self._sampled, self._treatment, self._first_chunk_at
        head, body, started_at = request.head, request.body, request.started_at
        seconds = perf_counter() - started_at
        return Exchange(
            id=head.exchange_id,
            request_id=head.request_id,
            received_at=time.time() - seconds,
            endpoint=self._path.decode("latin-1"),
            model=body.model or "",
            served_model=body.served_model or "",
            upstream=upstream,
            stream=body.stream,
            status_code=self._status,
            content_type=self._content_type,
            stratum=sampled.stratum,
            inclusion_probability=sampled.inclusion_probability,
            rate_factor=sampled.rate_factor,
            request_body=self._content,
            response_body=bytes(self._received),
            key_name=request.key.name,
            tag=head.tag,
            threshold=head.threshold,
            model_label=self._label_of(body.served_model),
            mitigation=None if treatment is None else treatment.policy,
            policy_version=None if treatment is None else treatment.version,
            arm=None if treatment is None else treatment.arm,
            treated_share=None if treatment is None else treatment.share,
            instruction=None if treatment is None else treatment.instruction,
            seconds=seconds,
            first_chunk_seconds=None if first is None else first - started_at,
            traceparent=stored_traceparent(traceparent) if (traceparent := request.traceparent_line) else None,
            content_encoding=self._content_encoding,
        )
