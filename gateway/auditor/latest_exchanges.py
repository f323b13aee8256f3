"""The exchange that an auditor's counter counted last, so that the number leads to it. In memory, of this process."""

import time

import msgspec

from gateway.proxy.trace_context import read_traceparent
from gateway.store.measurements import Recording
from gateway.streams.recording import counted


class Latest(msgspec.Struct, frozen=True, gc=False):
    """An exchange that was counted."""

    request_id: str
    trace_id: str
    """Of the live request; "" where it was not traced."""
    value: float
    """What was observed; 1 where it was only counted."""
    at: float
    """Unix seconds."""


class LatestExchanges:
    """By counter and label values, of which there is a closed set."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, tuple[str, ...]], Latest] = {}

    def note(self, recording: Recording) -> None:
        """It is in the store."""
        exchange, now = recording.exchange, time.time()
        found = read_traceparent(exchange.traceparent.encode()) if exchange.traceparent else None
        trace_id = f"{found.trace_id:032x}" if found is not None and found.is_sampled else ""
        for name, labels, value in counted(recording):
            self._latest[name, labels] = Latest(exchange.request_id, trace_id, value, now)

    def of(self, name: str, labels: tuple[str, ...]) -> Latest | None:
        """None where this process has counted none."""
        return self._latest.get((name, labels))
