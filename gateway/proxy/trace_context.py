"""W3C Trace Context: which span an exchange belongs under."""

import re

import msgspec

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_HEADER = b"traceparent: "


class TraceParent(msgspec.Struct, frozen=True):
    """The content of a traceparent header."""

    trace_id: int
    span_id: int
    is_sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


def read_traceparent(value: bytes) -> TraceParent | None:
    """Return the trace context; None for a malformed value, or a value that names no trace."""
    match = _TRACEPARENT.fullmatch(value)
    if match is None or match[1] == b"ff":
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    return TraceParent(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED)) if trace_id and span_id else None


def stored_traceparent(line: bytes) -> str | None:
    """The trace context of a header line, as it is stored with a sampled exchange; None where there is none."""
    traceparent = read_traceparent(line.removeprefix(_HEADER).rstrip())
    return None if traceparent is None else str(traceparent)
