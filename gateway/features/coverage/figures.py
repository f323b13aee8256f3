"""What no suite covers: how much of the traffic that names an identity resembles no question of any suite.

The forms of one computation, read by gateways without numpy. No text of an exchange is in them. Times are Unix seconds.
"""

import msgspec

CONFIDENCE_LEVEL = 0.95


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of sampled traffic, each exchange weighted by its inclusion probability (Hájek)."""

    value: float | None
    """In [0, 1]; None: see `reason`."""
    lower: float | None = None
    upper: float | None = None
    confidence_level: float = CONFIDENCE_LEVEL
    method: str = "cluster-wilson"
    n: int
    """Exchanges."""
    n_units: int
    """Draws: near-duplicates of one prompt, and all prompts of one named user, are one."""
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
    """One suite beside the traffic."""

    suite: str
    version: str
    data: str
    """canonical, or embedded where the published data is not there."""
    n_items: int
    n_compared: int
    """Questions whose embeddings the traffic was compared with: spread over the suite's clusters."""
    resembling: Share
    """Of the traffic that names an identity: what resembles a question of this suite."""


class TrafficCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts that are about alike."""

    share: Share
    """Of the traffic that names an identity."""
    unmatched: Share
    """Of this cluster: what resembles no question."""
    axes: list[str]
    """Those that its prompts name, the most frequent first."""
    suites: dict[str, float]
    """By suite that any of it resembles: share of the cluster."""
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
    """As the run has it."""
    suite_lower: float | None = None
    suite_upper: float | None = None
    value: float | None
    """None: not assessable, see `reason`."""
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
    """When the oldest exchange that was read came in."""
    embedder: str | None
    n_read: int
    """Stored exchanges that were looked at, the newest."""
    excluded: dict[str, int]
    """Of them, by why they are not among `unmatched`: names_no_identity, identity_named_elsewhere, not_readable,
    no_prompt, other_language, unknown_probability, no_embedding."""
    n_cut: int = 0
    """Prompts of which the end was not compared."""
    unmatched: Share
    """Of the traffic that names an identity: what resembles no question of any suite."""
    unmatched_distinct: Share
    """The same with each draw counted once, by the mean weight of its exchanges: a client who repeats one prompt moves
    the first and not this."""
    ordinary: Share
    """Of prompts that name no identity: what resembles a question all the same. How far chance goes."""
    threshold: Threshold | None = None
    suites: list[SuiteCoverage] = []
    clusters: list[TrafficCluster] = []
    """Those with the most traffic that no suite covers first."""
    reweighted: list[Reweighted] = []
    largest_key_share: float | None = None
    """Of the traffic that names an identity: what the client key with the most of it sent."""
    reason: str | None = None
    """Why there is no number."""
