"""Counts the messages in a protobuf body before it is made into objects, which take a hundred times the bytes.
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.errors import RequestError
from gateway.features.ingest.reading import TooLargeError

MOST_RECORDS = 100_000
"""Spans or log records in one body, with the groups that hold them."""
LARGE_RECORD_BYTES = 64 * 1024
"""Bytes from which a record is large; a smaller one is parsed within 3 ms."""
MOST_MESSAGES_OF_A_RECORD = 100_000
"""Attributes, events, links and values in each other."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10

_Kind = Mapping[int, str]
_KINDS: Mapping[str, _Kind] = {
    "span": {9: "attribute", 11: "event", 13: "link"},
    "record": {5: "value", 6: "attribute"},
    "event": {3: "attribute"},
    "link": {4: "attribute"},
    "attribute": {2: "value"},
    "value": {5: "values", 6: "attributes"},
    "values": {1: "value"},
    "attributes": {1: "attribute"},
}
"""Fields that hold messages, and the kind of those messages, by kind of message; of the OTLP protocol 1.x."""


class WireError(RequestError):
    """The bytes are not protobuf."""


class _Field(NamedTuple):
    number: int
    start: int
    end: int


def records_of(body: bytes) -> Iterator[bytes]:
    """Yield each span or log record of an export. Raises WireError, and TooLargeError where there are too many."""
    n_groups_and_records = 0

    def counted(start: int, end: int) -> Iterator[_Field]:
        nonlocal n_groups_and_records
        for field in _fields(body, start, end):
            n_groups_and_records += 1
            if n_groups_and_records > MOST_RECORDS:
                raise TooLargeError(f"the body has more than {MOST_RECORDS} spans or log records: send smaller batches")
            yield field

    for resource in counted(0, len(body)):
        for scope in counted(resource.start, resource.end) if resource.number == 1 else ():
            for record in counted(scope.start, scope.end) if scope.number == 2 else ():
                if record.number == 2:
                    yield body[record.start : record.end]


def require_few_messages(record: bytes, kind: str) -> None:
    """Raises TooLargeError for a "span" or log "record" of too many messages, and WireError for no protobuf."""
    if len(record) <= LARGE_RECORD_BYTES:
        return
    n_fields, open_ = 0, [(kind, 0, len(record))]
    while open_:
        kind, start, end = open_.pop()
        inner = _KINDS[kind]
        for field in _fields(record, start, end):
            n_fields += 1
            if n_fields > MOST_MESSAGES_OF_A_RECORD:
                raise TooLargeError(
                    f"a span or log record has more than {MOST_MESSAGES_OF_A_RECORD} attributes and values: "
                    "record less of it"
                )
            if field.number in inner:
                open_.append((inner[field.number], field.start, field.end))


def _fields(data: bytes, position: int, end: int) -> Iterator[_Field]:
    """Yield the fields that hold bytes, and all others as empty ones of number 0."""
    while position < end:
        key, position = _varint(data, position, end)
        wire_type = key & 7
        if wire_type == _BYTES:
            length, position = _varint(data, position, end)
            if length > end - position:
                raise WireError("a field is longer than what it lies in")
            yield _Field(key >> 3, position, position + length)
            position += length
            continue
        if wire_type == _VARINT:
            _, position = _varint(data, position, end)
        elif wire_type in (_FIXED64, _FIXED32):
            position += 8 if wire_type == _FIXED64 else 4
        else:
            raise WireError(f"a field of wire type {wire_type}")
        if position > end:
            raise WireError("a field is longer than what it lies in")
        yield _Field(0, position, position)


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    if position < end and data[position] < 0x80:
        return data[position], position + 1
    value = 0
    for index in range(_LONGEST_VARINT):
        if position + index >= end:
            break
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise WireError("a number that does not end")
