"""W3C Trace Context: which span an exchange belongs under."""

import re

import msgspec

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_HEADER = b"traceparent: "


class TraceParent(msgspec.Struct, frozen=True):
    """What a traceparent header says."""

    trace_id: int
    span_id: int
    is_sampled: bool

    def __str__(self) -> str:
        """As a header's value of version 00."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


def read_traceparent(value: bytes) -> TraceParent | None:
    """None for a value that is none, or names no trace."""
    found = _TRACEPARENT.fullmatch(value)
    if found is None or found[1] == b"ff":
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    return TraceParent(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED)) if trace_id and span_id else None


def stored_traceparent(line: bytes) -> str | None:
    """The trace context of a header line, as it is stored with a sampled exchange; None where there is none."""
    found = read_traceparent(line.removeprefix(_HEADER).rstrip())
    return None if found is None else str(found)
