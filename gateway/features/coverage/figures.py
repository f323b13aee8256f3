"""The figures of coverage, of traffic that resembles no question of a suite: without text or numpy; Unix seconds."""

import msgspec

CONFIDENCE_LEVEL = 0.95


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of sampled traffic, each exchange weighted by its inclusion probability (Hájek)."""

    value: float | None
    """Share in [0, 1]; None if it is not assessable, see `reason`."""
    lower: float | None = None
    upper: float | None = None
    confidence_level: float = CONFIDENCE_LEVEL
    method: str = "cluster-wilson"
    n: int
    """Exchanges."""
    n_units: int
    """Draws: near-duplicates of a prompt, and all prompts of a named user, count as a single draw."""
    n_effective: float
    """Kish's effective number of draws, by their weights."""
    reason: str | None = None


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """The cosine from which a prompt resembles a question, as the suites' own questions set it."""

    value: float
    lower: float
    """Ends of its interval, by resampling the held-out questions of each suite."""
    upper: float
    recognised: float
    """Share of the held-out questions that are at least so near to a question of another cluster or suite."""
    n_held_out: int
    unmatched_at_lower: float | None = None
    """The share without any resembling question if the threshold were at that end."""
    unmatched_at_upper: float | None = None


class SuiteCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """A suite compared with the traffic."""

    suite: str
    version: str
    data: str
    """canonical, or embedded where the published data is not there."""
    n_items: int
    n_compared: int
    """Questions whose embeddings the traffic was compared with: spread over the suite's clusters."""
    resembling: Share
    """Share that resembles a question of this suite, of the traffic that names an identity."""


class TrafficCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of similar prompts."""

    share: Share
    """Share of the cluster in the traffic that names an identity."""
    unmatched: Share
    """Share of this cluster that resembles no question."""
    axes: list[str]
    """Axes that the cluster's prompts name, the most frequent first."""
    suites: dict[str, float]
    """Share of the cluster that resembles each suite, by suite; suites that none of it resembles are left out."""
    examples: list[str]
    """Ids of exchanges near its centre, those without a resembling question first."""


class Reweighted(msgspec.Struct, frozen=True, kw_only=True):
    """The headline number of a finished run, with its questions weighted as the traffic that resembles them."""

    run: str
    suite: str
    model: str
    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    suite_value: float | None
    """The number as the run has it."""
    suite_lower: float | None = None
    suite_upper: float | None = None
    value: float | None
    """The reweighted number; None if it is not assessable, see `reason`."""
    lower: float | None = None
    upper: float | None = None
    confidence_level: float = CONFIDENCE_LEVEL
    method: str = "two-sided cluster bootstrap"
    """Resamples the traffic's draws, which moves the weights, and the suite's clusters, at once."""
    represents: float
    """Share of the traffic that names an identity for which it speaks."""
    n: int
    """Exchanges that it speaks for."""
    n_units: int
    n_clusters: int
    """Clusters of the suite with a weight."""
    n_effective_clusters: float
    reason: str | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """One computation."""

    at: float
    since: float | None
    """Unix seconds at which the oldest exchange that was read came in."""
    embedder: str | None
    n_read: int
    """Stored exchanges that were looked at, the newest."""
    excluded: dict[str, int]
    """Exchanges read that are not in `unmatched`, by reason: names_no_identity, identity_named_elsewhere, not_readable,
    no_prompt, other_language, unknown_probability, no_embedding."""
    n_cut: int = 0
    """Prompts of which the end was not compared."""
    unmatched: Share
    """Share that resembles no question of any suite, of the traffic that names an identity."""
    unmatched_distinct: Share
    """The same with each draw counted once, by its exchanges' mean weight: repeats of a prompt do not move it."""
    ordinary: Share
    """Share that resembles a question all the same, of prompts that name no identity: the resemblance by chance."""
    threshold: Threshold | None = None
    suites: list[SuiteCoverage] = []
    clusters: list[TrafficCluster] = []
    """Clusters, those with the most traffic that no suite covers first."""
    reweighted: list[Reweighted] = []
    largest_key_share: float | None = None
    """Share that the client key with the most traffic sent, of the traffic that names an identity."""
    reason: str | None = None
    """Reason why the computation has no number."""
    next_at: float | None = None
    """Unix seconds from which an auditor computes it again, set when it is read; None where only a request makes it."""
