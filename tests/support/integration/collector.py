"""An OpenTelemetry collector as far as a test needs one: takes OTLP over HTTP, remembers spans and events."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.integration.scripted_upstream import read_request


@dataclass
class ReceivedSpan:
    """One span in plain words."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    status: int
    start: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class ReceivedEvent:
    """One log record in plain words."""

    name: str
    trace_id: str
    span_id: str
    flags: int
    time: int
    body: str
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Collector:
    port: int = 0
    status: bytes = b"200 OK"
    refuses: Callable[[bytes], bool] = lambda _: False
    """Whether a body is answered with a 400 and taken for nothing."""
    events: list[ReceivedEvent] = field(default_factory=list)
    requests: int = 0
    spans: list[ReceivedSpan] = field(default_factory=list)
    waiting: asyncio.Event | None = None
    """While set to an event, no answer is given before it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_request(reader, 0):
                assert (request.method, request.target) in (("POST", "/v1/traces"), ("POST", "/v1/logs"))
                assert request.header("content-type") == "application/x-protobuf"
                self.requests += 1
                if self.waiting is not None:
                    await self.waiting.wait()
                is_packed = request.header("content-encoding") == "gzip"
                body = gzip.decompress(request.body) if is_packed else request.body
                status = b"400 Bad Request" if self.refuses(body) else self.status
                if not status.startswith((b"4", b"3")):
                    (self._take if request.target == "/v1/traces" else self._take_logs)(body)
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _take(self, body: bytes) -> None:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _plain(group.resource.attributes)
            for scope in group.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        ReceivedSpan(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.kind,
                            span.status.code,
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            _plain(span.attributes),
                            resource,
                        )
                    )

    def _take_logs(self, body: bytes) -> None:
        for group in ExportLogsServiceRequest.FromString(body).resource_logs:
            resource = _plain(group.resource.attributes)
            for scope in group.scope_logs:
                for one in scope.log_records:
                    self.events.append(
                        ReceivedEvent(
                            one.event_name,
                            one.trace_id.hex(),
                            one.span_id.hex(),
                            one.flags,
                            one.time_unix_nano,
                            one.body.string_value,
                            _plain(one.attributes),
                            resource,
                        )
                    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    collector.port = server.sockets[0].getsockname()[1]
    try:
        yield collector
    finally:
        server.close()
