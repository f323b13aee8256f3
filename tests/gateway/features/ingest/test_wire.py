"""Bodies of protobuf that are little but messages are refused before they become objects; others are read as ever."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.features.ingest import otlp
from gateway.features.ingest.reading import TooLargeError
from gateway.features.ingest.wire import MOST_MESSAGES_OF_A_RECORD, WireError, records_of, require_few_messages

N = 100_100


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def in_span(content: bytes) -> bytes:
    return field(1, field(2, field(2, content)))


DENSE = {
    "resources": b"\x0a\x00" * N,
    "scopes": field(1, b"\x12\x00" * N),
    "spans": field(1, field(2, b"\x12\x00" * N)),
    "attributes": in_span(b"\x4a\x00" * N),
    "events": in_span(b"\x5a\x00" * N),
    "links": in_span(b"\x6a\x00" * N),
    "values of a list": in_span(field(9, field(2, field(5, b"\x0a\x00" * N)))),
    "attributes of an event": in_span(field(11, b"\x1a\x00" * N)),
    "numbers": in_span(b"\x30\x01" * N),
}


@pytest.mark.parametrize("name", DENSE)
def test_little_but_messages(name: str) -> None:
    """Two bytes each, two hundred as objects."""
    with pytest.raises(TooLargeError, match=r"more than 100000 (spans or log records|attributes and values)"):
        otlp.read(DENSE[name], "traces", is_json=False, sender=None)


def test_what_is_ordinary_is_read() -> None:
    """Records come out as they went in, of any group."""
    export = ExportTraceServiceRequest()
    for number in range(6):
        span = export.resource_spans.add().scope_spans.add().spans.add(name=f"s{number}", trace_id=b"\1" * 16)
        span.attributes.add(key="k").value.array_value.values.add(string_value="v" * 100_000)
        span.flags, span.start_time_unix_nano = 7, 2**60
        require_few_messages(span.SerializeToString(), "span")

    records = [*records_of(export.SerializeToString())]
    assert records == [
        span.SerializeToString() for group in export.resource_spans for span in group.scope_spans[0].spans
    ]
    require_few_messages(b"\x4a\x00" * (MOST_MESSAGES_OF_A_RECORD - 1), "span")


@pytest.mark.parametrize(
    "body", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\xff" * 20, b"\x0a\x80", b"\x09\x00", b"\x0d\x00"]
)
def test_no_protobuf(body: bytes) -> None:
    """It is named as what it is."""
    with pytest.raises(WireError):
        [*records_of(body)]
