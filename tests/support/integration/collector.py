"""An OpenTelemetry collector as far as a test needs one: takes OTLP over HTTP, decodes it, remembers the spans."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

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
class Collector:
    port: int = 0
    status: bytes = b"200 OK"
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
                assert (request.method, request.target) == ("POST", "/v1/traces")
                assert request.header("content-type") == "application/x-protobuf"
                self.requests += 1
                if self.waiting is not None:
                    await self.waiting.wait()
                if self.status.startswith(b"200"):
                    is_packed = request.header("content-encoding") == "gzip"
                    self._take(gzip.decompress(request.body) if is_packed else request.body)
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self.status)
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


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@asynccontextmanager
async def collecting(port: int = 0) -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.serve, "127.0.0.1", port)
    collector.port = server.sockets[0].getsockname()[1]
    try:
        yield collector
    finally:
        server.close()
