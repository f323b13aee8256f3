"""A row of the comparisons of policies, as the live views take it."""

import msgspec

from auditors.streams.arms import ArmsState
from auditors.streams.state import StreamKey


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
