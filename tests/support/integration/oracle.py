"""The slow oracle of the relay: the same contract as an ASGI handler over httpx.

It shares the decisions (admission, body policy, choice of upstream, tap, counts) and repeats the byte work in the plain
way, so that both can be driven with the same traffic and compared. Documented differences: header names arrive in lower
case, 1xx responses are not handed on, no upstream connection is kept, so none can be found stale, and exchanges are
neither traced nor written to the access log.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import perf_counter
from typing import Any

import httpx

from gateway.proxy.admission import ANONYMOUS, PREFLIGHT, Client
from gateway.proxy.body import TAKING_PRIORITY, BodyLimit, RequestBody, with_priority
from gateway.proxy.cors import CorsPolicy, is_preflight, without_cors
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.headers import Header, RequestHead, ResponseHead, without
from gateway.proxy.refusals import (
    WEBSOCKET_REFUSED,
    Refusal,
    no_upstream,
    stream_error_event,
    upstream_error,
    upstream_timeout,
)
from gateway.proxy.sampled_copy import SampledCopy, count_as_filtered, start_copy
from gateway.proxy.target import asks_websocket, relay_target
from gateway.proxy.types import LABELLED_ENDPOINTS, EndedRequest, EndReason
from gateway.proxy.upstreams import GATEWAY_ERRORS, Upstream

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]


class OracleRelay:
    """ASGI application for every path that is relayed. Close it with `aclose`."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        has_tls = any(upstream.origin.startswith("https://") for upstream in plane.upstreams)
        self._http = httpx.AsyncClient(
            verify=ssl.create_default_context() if has_tls else False,
            trust_env=False,
            timeout=None,  # the four limits of an upstream are kept in _Exchange
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            follow_redirects=False,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await _Exchange(self._plane, self._http, scope, receive, send).run()

    def takes(self, path: bytes) -> bool:
        """Return whether a request for this path is relayed."""
        return relay_target(path, self._plane.relayed_paths) is not None

    async def aclose(self) -> None:
        await self._http.aclose()


def beside(app: ASGIApp, oracle: OracleRelay) -> ASGIApp:
    """Return an app that gives the oracle what the relay would take, and the app the rest."""

    async def dispatch(scope: Message, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and oracle.takes(scope["raw_path"])
        await (oracle if is_ours else app)(scope, receive, send)

    return dispatch


class _Refused(Exception):
    """The exchange ends with an answer, or an error event, of the gateway's own."""

    def __init__(self, refusal: Refusal, outcome: EndReason = "rejected") -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.outcome = outcome


class _ClientGone(Exception):
    """The client closed its connection."""


class _Exchange:
    """One request on its way through; `run` counts exactly one end."""

    def __init__(self, plane: DataPlane, http: httpx.AsyncClient, scope: Message, receive: Receive, send: Send) -> None:
        self._plane = plane
        self._http = http
        self._receive = receive
        self._send = send
        self.method: bytes = scope["method"].encode()
        self._asks_websocket = asks_websocket(self.method, scope["headers"])
        self.path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        self._target = self.path + b"?" + query if query else self.path
        self.head = RequestHead(scope["headers"])
        self.started_at = perf_counter()
        self.body = RequestBody(b"")
        self.key = ANONYMOUS
        self._upstream: Upstream | None = None
        self._copy: SampledCopy | None = None
        self._sent_at: float | None = None
        self._received_at: float | None = None
        self._first_chunk_at: float | None = None
        self._has_head = False
        self._is_complete = False
        """The last byte went to the server, which then reports a disconnect whether there was one or not."""
        self._was_started = False
        self._can_append_event = False
        self._received = bytearray()
        self._refusal: Refusal | None = None
        self.held_bytes = 0

    @property
    def traceparent_line(self) -> bytes:
        return self.head.traceparent_line

    async def run(self) -> None:
        outcome: EndReason = "client_disconnected"
        try:
            outcome = await self._relay()
        except _Refused as exc:
            outcome = exc.outcome
            await self._tell(exc.refusal)
        except _ClientGone:
            pass
        finally:
            self._plane.bodies.release(self)
            if self._upstream is not None:
                self._upstream.outstanding -= 1
            self._count(outcome)
            if self._copy is not None:
                self._copy.finish(outcome, self._upstream.name if self._upstream else "none")

    # The request.

    async def _relay(self) -> EndReason:
        is_asking_beforehand = is_preflight(self.method, self.head)
        if is_asking_beforehand and self._plane.cors is not None:
            return await self._answer_preflight(self._plane.cors)
        admit = self._plane.admission.admit_preflight if is_asking_beforehand else self._plane.admission.admit
        admitted = admit(self.head, self.started_at)
        if isinstance(admitted, Refusal):
            raise _Refused(admitted)
        if self._asks_websocket:
            count_as_filtered(self._plane.tap, self.head)
            raise _Refused(WEBSOCKET_REFUSED)
        content = await self._read_request()
        body = self._plane.admission.read(content, admitted, self.head)
        if isinstance(body, Refusal):
            raise _Refused(body)
        self.body = body
        if self._plane.answers_itself(self.method, self.path):
            return await self._answer_models()
        watching = asyncio.create_task(self._wait_for_disconnect())
        relaying = asyncio.create_task(self._exchange_with_upstream(admitted, content))
        try:
            await asyncio.wait({watching, relaying}, return_when=asyncio.FIRST_COMPLETED)
            if not relaying.done() and not self._is_complete:
                raise _ClientGone
            return await relaying
        finally:
            for task in (watching, relaying):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, _Refused):
                await relaying

    async def _read_request(self) -> bytes:
        limit, bodies = BodyLimit(self._plane.admission.max_body_bytes), self._plane.bodies
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            data = message.get("body", b"")
            self._received += data
            bodies.add(self, len(data))
            if refusal := self._refusal or limit.refusal(self._received, data):
                raise _Refused(refusal)
            if not message.get("more_body", False):
                bodies.completed(self)
                return bytes(self._received)

    def refuse(self, refusal: Refusal) -> None:
        """There is no room for the body: said with the next piece of it."""
        self._refusal = refusal
        self._received.clear()
        self._plane.bodies.release(self)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # The upstream.

    async def _exchange_with_upstream(self, client: Client, content: bytes) -> EndReason:
        upstream = self._plane.choose(self.head, self.body)
        if upstream is None:
            raise _Refused(no_upstream(self.body.model))
        self._move_to(upstream)
        self.key = client
        self._copy = start_copy(self._plane.tap, self, content, label_of=self._plane.model_label)
        total = upstream.timeouts.total
        try:
            async with asyncio.timeout(total):
                response = await self._send_to_some_upstream(client)
                try:
                    await self._hand_on(response)
                finally:
                    await response.aclose()
        except TimeoutError as exc:
            raise self._timed_out(f"did not finish within {total:g} s", "total") from exc
        return "complete"

    async def _send_to_some_upstream(self, client: Client) -> httpx.Response:
        """An upstream that takes no connection is marked down and another one is tried."""
        tried: list[Upstream] = []
        while True:
            try:
                return await self._send_upstream(client)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                failure = self._connect_failure(exc)
                tried.append(self._chosen)
                other = self._plane.choose(self.head, self.body, exclude=tried)
                if other is None:
                    raise failure from exc
                self._move_to(other)

    async def _send_upstream(self, client: Client) -> httpx.Response:
        upstream = self._chosen
        request = httpx.Request(
            self.method.decode(),
            upstream.origin,
            headers=self._request_headers(upstream, client),
            content=self._content(upstream),
            extensions={
                "target": upstream.prefix + self._target,
                "timeout": {"connect": upstream.timeouts.connect},
                "trace": self._trace,
            },
        )
        limit = upstream.timeouts.first_byte
        try:
            async with asyncio.timeout(limit):
                return await self._http.send(request, stream=True)
        except TimeoutError as exc:
            raise self._late(f"did not answer for {limit:g} s", "first_byte") from exc
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise
        except httpx.HTTPError as exc:
            raise self._lost(exc) from exc

    async def _trace(self, event: str, _info: Mapping[str, Any]) -> None:
        """Hears of httpcore's progress: from here on the upstream has the request."""
        if event == "http11.send_request_headers.started":
            self._sent_at = perf_counter()
            self._was_started = True
            self._plane.stats.started(self._chosen.name)

    def _content(self, upstream: Upstream) -> bytes:
        """The body, of an audit with its priority. An audit is never turned away or cut off here."""
        sets_priority = self.head.is_audit and upstream.config.priority_scheduling and self.path in TAKING_PRIORITY
        content = self.body.content
        return with_priority(content, self._plane.config.audits.priority) if sets_priority else content

    def _request_headers(self, upstream: Upstream, client: Client) -> list[Header]:
        lines = self.head.upstream_lines(
            pass_credentials=not (self._plane.admission.checks_keys or upstream.authorization_line),
            pass_priority=client.may_set_priority and not self.head.is_audit,
        )
        if self.head.is_audit:
            lines = [*without(lines, upstream.audit_names), *upstream.audit_lines]
        framing = []
        content = self._content(upstream)
        if content or self.head.has_body:
            framing.append(b"content-length: %d\r\n" % len(content))
        own_key = upstream.authorization_line if client is not PREFLIGHT else b""
        own = [line for line in (upstream.host_line, own_key) if line]
        trace = [line] if (line := self.head.traceparent_line) else []
        return [_split(line) for line in (*own, *framing, *trace, *lines)]

    async def _hand_on(self, response: httpx.Response) -> None:
        head = ResponseHead(response.headers.raw)
        head.lines = self._chosen.without_own_address(head.lines)
        if response.status_code == 404 and (refusal := self._plane.unknown_model(self.path, self.body)):
            if self._copy is not None and not self._copy.accepts(404, head):
                self._copy = None
            self._chosen.outliers.succeeded()
            raise _Refused(refusal, "complete")
        await self._start_response(response.status_code, head)
        chunks = response.aiter_raw()
        limits = self._chosen.timeouts
        while True:
            is_first = self._first_chunk_at is None
            limit = (self._sent_at or perf_counter()) + limits.first_byte - perf_counter() if is_first else limits.idle
            try:
                async with asyncio.timeout(limit):
                    chunk = await anext(chunks, None)
            except TimeoutError as exc:
                if is_first:
                    raise self._late(f"did not answer for {limits.first_byte:g} s", "first_byte") from exc
                raise self._late(f"sent nothing more for {limits.idle:g} s", "idle") from exc
            except httpx.HTTPError as exc:
                raise self._lost(exc) from exc
            self._received_at = perf_counter()
            if chunk is None:
                break
            await self._hand_on_chunk(chunk)
        self._is_complete = True
        if response.status_code in GATEWAY_ERRORS:
            self._note_failure(f"answered {response.status_code}")
        else:
            self._chosen.outliers.succeeded()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start_response(self, status: int, head: ResponseHead) -> None:
        self._has_head = True
        lines = head.lines if self._plane.cors is None else without_cors(head.lines)
        headers = [_split(line) for line in lines] + self._cors_headers()
        if head.content_length is not None:
            headers.append((b"content-length", head.content_length))
        elif self.method != b"HEAD" and status not in (204, 304):
            self._can_append_event = head.is_event_stream
        headers += [(b"x-request-id", self.head.request_id.encode("latin-1")), _split(self._chosen.label_line)]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        if self._copy is not None and not self._copy.accepts(status, head):
            self._copy = None

    async def _hand_on_chunk(self, chunk: bytes) -> None:
        if self._first_chunk_at is None:
            self._first_chunk_at = perf_counter()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        if self._copy is not None and not self._copy.append(chunk):
            self._copy = None

    # Answers of the gateway's own.

    async def _answer_preflight(self, cors: CorsPolicy) -> EndReason:
        count_as_filtered(self._plane.tap, self.head)
        lines = cors.preflight_lines(self.head)
        if isinstance(lines, Refusal):
            raise _Refused(lines)
        headers = [(b"x-request-id", self.head.request_id.encode("latin-1")), *self._cors_headers()]
        headers += [_split(line) for line in lines.splitlines()]
        await self._send({"type": "http.response.start", "status": 204, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        return "complete"

    def _cors_headers(self) -> list[Header]:
        cors = self._plane.cors
        return [] if cors is None else [_split(line) for line in cors.answer_lines(self.head.origin).splitlines()]

    async def _answer_models(self) -> EndReason:
        body = self._plane.models_body()
        if body is None:
            raise _Refused(no_upstream(None))
        await self._answer(200, body, [])
        return "complete"

    async def _tell(self, refusal: Refusal) -> None:
        """Says so in the way that is left: a complete answer, an event behind the stream, or a broken connection."""
        if not self._has_head:
            extra = [_split(self._upstream.label_line)] if self._upstream else []
            extra += [_split(line) for line in refusal.header_lines.splitlines()]
            await self._answer(refusal.status, refusal.body, extra)
        elif self._can_append_event:
            event = stream_error_event(self.path, refusal)
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
        # else: returning from the application without the end of the body makes the server cut the connection

    async def _answer(self, status: int, body: bytes, extra: list[Header]) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"x-content-type-options", b"nosniff"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", self.head.request_id.encode("latin-1")),
            *self._cors_headers(),
            *extra,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    # Failures.

    def _late(self, what: str, limit: str) -> _Refused:
        self._note_failure(what)
        return self._timed_out(what, limit)

    def _timed_out(self, what: str, limit: str) -> _Refused:
        return _Refused(upstream_timeout(self._chosen.name, what, limit), "timed_out")

    def _note_failure(self, what: str) -> None:
        self._chosen.request_failed(what, self._sent_at or self.started_at)

    def _lost(self, exc: httpx.HTTPError) -> _Refused:
        what = "sent a malformed response" if isinstance(exc, httpx.ProtocolError) else "closed the connection"
        self._note_failure(what)
        return _Refused(upstream_error(self._chosen.name, f"{what} ({exc or type(exc).__name__})"), "upstream_error")

    def _connect_failure(self, exc: httpx.TransportError) -> _Refused:
        upstream = self._chosen
        if isinstance(exc, httpx.ConnectTimeout):
            upstream.mark_down("did not accept a connection in time")
            return self._timed_out("did not accept a connection in time", "connect")
        upstream.mark_down(f"cannot be reached ({exc})")
        return _Refused(upstream_error(upstream.name, f"cannot be reached ({exc})"), "upstream_error")

    # Bookkeeping.

    @property
    def _chosen(self) -> Upstream:
        if self._upstream is None:
            raise RuntimeError("asked for before an upstream was chosen")
        return self._upstream

    def _move_to(self, upstream: Upstream) -> None:
        """Counts this exchange at one upstream, and no longer at the one before."""
        if self._upstream is not None:
            self._upstream.outstanding -= 1
        self._upstream = upstream
        upstream.outstanding += 1

    def _count(self, outcome: EndReason) -> None:
        now, upstream = perf_counter(), self._upstream
        overhead = (self._sent_at or now) - self.started_at
        if self._received_at is not None:
            overhead += now - self._received_at
        endpoint = self.path.decode("latin-1")
        self._plane.stats.ended(
            EndedRequest(
                upstream=upstream.name if upstream else "none",
                model=self._plane.model_label(self.body.model),
                endpoint=endpoint if endpoint in LABELLED_ENDPOINTS else "other",
                outcome=outcome,
                duration_seconds=now - self.started_at,
                overhead_seconds=overhead,
                first_chunk_seconds=self._first_chunk_at - self.started_at if self._first_chunk_at else None,
                was_started=self._was_started,
                request_id=self.head.request_id,
            )
        )


def _split(line: bytes) -> Header:
    name, _, value = line.rstrip(b"\r\n").partition(b": ")
    return name.lower(), value
