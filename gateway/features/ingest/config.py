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
    """Take exchanges at /ingest, with the keys of [[keys]]."""
    sampling_rate: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Share of exchanges that senders send, whatever they state. Unset: unknown without `may_state_rate`."""
    min_sampling_rate: Annotated[float, Meta(ge=2**-20, le=1)] = MIN_SAMPLING_RATE
    """Smallest rate that a key which `may_state_rate` may state; an exchange with a smaller one is rejected."""
    max_weight_share: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    """Largest share of a stream's weight that one exchange may have for the rate that its sender states; 1: any."""
    models: list[str] = msgspec.field(default_factory=list)
    """Models that have series of their own, besides those that the upstreams serve; others are "other"."""
    upstream: str | None = None
    """The upstream that auditors ask about these exchanges; unset: any that serves a model of that name."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 8 * 1024 * 1024
    """Largest body of a request, decompressed."""
    join_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Seconds for which part of an exchange waits for the rest."""
    max_waiting: Count = 100_000
    """Parts of a key's exchanges that wait for the rest; more are refused until some came or gave up."""


def check_ingest(config: Config) -> None:
    """Raise ConfigError for an upstream that is not there."""
    upstream, names = INGEST.of(config).upstream, [upstream.name for upstream in config.upstreams]
    if upstream is not None and upstream not in names:
        raise ConfigError(f'ingest.upstream "{upstream}" is not an upstream{nearest(upstream, names)}: name one')


INGEST = FeatureSection("ingest", IngestConfig, IngestConfig(), is_read_by_auditor=True)
