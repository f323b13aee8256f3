"""What the store reads for the live views: the history of a stream, changes of a model, the arms of a policy."""

from collections.abc import Mapping

import msgspec

from auditors.streams.arms import ArmsState
from auditors.streams.state import StreamKey
from gateway.live.stream import WindowSums

MOST_READ = 20_000
"""Measurements that are read for one history: the newest."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one stream."""

    length: int
    """Of each period, in seconds."""
    periods: Mapping[int, WindowSums]
    """By their number since 1970-01-01 UTC, in order of time; one without measurements is absent."""
    is_cut: bool
    """Whether MOST_READ left out older measurements that were asked for."""


class ModelChange(msgspec.Struct, frozen=True):
    """An upstream serving another model than before under the same name."""

    at: float
    """When it was seen, Unix seconds."""
    upstream: str
    fingerprint_before: str
    fingerprint_after: str


class PolicyArms(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: a metric of a group under one version of a policy."""

    policy: str
    version: str
    """Digest of what the policy says: another sentence or share begins a new comparison."""
    key: StreamKey
    state: ArmsState
    since: float
    """Unix time of the first measurement."""
    updated_at: float
