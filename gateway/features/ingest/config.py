"""The section `[ingest]` of the configuration."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.schema import Config, Count, Section
from gateway.config.sections import FeatureSection
from gateway.errors import ConfigError, nearest

MIN_SAMPLING_RATE = 2**-10
"""Default of `ingest.min_sampling_rate`: no stated rate makes an exchange weigh more than 1,024 others."""


class IngestConfig(Section, frozen=True):
    """Exchanges that others relayed and recorded (docs/ingest.md)."""

    enabled: bool = False
    """Open /ingest for `[[keys]]`."""
    sampling_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Share that senders send; overrides stated rates. Unset: unknown except for keys that `may_state_rate`; then no
    estimate has an interval."""
    min_sampling_rate: Annotated[float, Meta(ge=2**-20, le=1)] = MIN_SAMPLING_RATE
    """Smallest believed rate; smaller rates are rejected."""
    max_weight_share: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    """Largest weight of an exchange in its stream (docs/ingest.md#limit-of-a-stated-rate); 1: any."""
    models: list[str] = msgspec.field(default_factory=list)
    """Models with their own series besides those of upstreams; others are `other`."""
    upstream: str | None = None
    """Upstream that auditors ask; unset: any that serves the model."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 8 * 1024 * 1024
    """Largest body of a request, decompressed."""
    join_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Longest wait of part of an exchange for the rest."""
    max_waiting: Count = 100_000
    """Waiting parts for each key; then 429."""


def check_ingest(config: Config) -> None:
    """Raise ConfigError for an upstream that is not there."""
    upstream, names = INGEST.of(config).upstream, [upstream.name for upstream in config.upstreams]
    if upstream is not None and upstream not in names:
        raise ConfigError(f'ingest.upstream "{upstream}" is not an upstream{nearest(upstream, names)}: name one')


INGEST = FeatureSection("ingest", IngestConfig, IngestConfig(), is_read_by_auditor=True)
