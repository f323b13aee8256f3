"""The form in which a canary is shown: over HTTP, on the command line and to a webhook."""

import msgspec

from gateway.features.canary.comparison import GapReport, ProxyReport, Verdict


class ShownSide(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    upstream: str | None
    fingerprint: str | None
    """Fingerprint of the model at the start; None where the upstream did not say, or before the start."""


class ListedCanary(msgspec.Struct, frozen=True, kw_only=True):
    """One canary in a list. Times are Unix seconds."""

    id: str
    status: str
    verdict: Verdict
    reasons: list[str]
    stable: str
    """Its model."""
    canary: str
    created_at: float
    started_at: float | None
    finished_at: float | None


class ShownDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of a verdict to the webhook."""

    status: str
    """pending, delivered, or failed: all attempts were made."""
    attempts: int
    problem: str | None
    """Why the last attempt failed."""
    delivered_at: float | None
    """Unix seconds at which the verdict was delivered; None before."""


class ShownCanary(msgspec.Struct, frozen=True, kw_only=True):
    """One canary. Times are Unix seconds; scores and differences are on -1..1."""

    id: str
    status: str
    """queued, running or done."""
    verdict: Verdict
    reasons: list[str]
    stable: ShownSide
    canary: ShownSide
    auditors: list[str]
    axes: list[str] | None
    smallest_difference: float
    tolerance: float
    alpha: float
    max_pairs: int
    n_pairs: int
    n_compared: int
    failed: dict[str, int]
    e_value: float | None
    """Mean over all gaps, against "none has grown by more than the tolerance"; None before the first look."""
    gaps: list[GapReport]
    beside: list[ProxyReport]
    exchanges: dict[str, int]
    """Number of exchanges to draw from, by auditor, axis and group."""
    left_out: dict[str, int]
    """Number of exchanges about each stratum or metric that is left out: too few."""
    created_at: float
    started_at: float | None
    finished_at: float | None
    webhook: ShownDelivery | None = None
    """Delivery of the verdict; None without a verdict, or where no webhook is configured."""
