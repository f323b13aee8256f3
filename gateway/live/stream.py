"""A live series as the store keeps it, and its sums over a window."""

import msgspec

from auditors.metrics.weighting import WeightedSums
from auditors.streams.state import StreamKey, StreamState


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One live series. Times are Unix seconds."""

    id: str
    key: StreamKey
    state: StreamState
    updated_at: float
    alarm_since: float | None
    """When the alarm that stands was raised."""
    alarm_exchange_id: str | None
    """The exchange whose audit raised the alarm."""
    acknowledged_at: float | None


class WindowSums(msgspec.Struct):
    """One stream over a window."""

    values: WeightedSums = WeightedSums()
    """Of y on [0, 1]."""
    excluded: dict[str, int] = msgspec.field(default_factory=dict)
    """Audits without a value, by status."""
