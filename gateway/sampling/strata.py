"""Finds the stratum that a request is sampled in, and the rate of each."""

from collections.abc import Callable

from gateway.config.schema import BY_MODEL, BY_ROUTE, SamplingConfig

OPTED_IN = "opted_in"
"""Stratum of requests that ask to be audited, and may: at rate 1, lowered as every other is."""
UNCLASSIFIED = "unclassified"
"""Stratum of requests whose fate did not depend on one: filtered, opted out, or out at every stratum's rate."""
LOWEST_FACTOR = 0.125
"""Share of its configured value that a rate keeps whatever waits, unless the configuration says otherwise."""


class Strata:
    """The strata of a single configuration."""

    END_BYTES = 64 * 1024
    """Bytes at each end of a body that are searched for identity terms, if it is larger than both: 10 ms."""

    def __init__(self, config: SamplingConfig) -> None:
        self.tags = frozenset(config.tags)
        self._by_place = frozenset(name for name in config.strata if name.startswith((BY_MODEL, BY_ROUTE)))
        self.rates = {tag: config.strata.get(tag, config.rate) for tag in config.tags}
        self.rates |= {name: config.strata[name] for name in self._by_place}
        self.rates["other"] = config.strata.get("other", config.rate)
        self._mentions_identity: Callable[[bytes], bool] | None = None
        if "identity_mention" in config.strata:
            from auditors.text.identity import mentions_identity  # its tables are loaded only where they are used

            self.rates["identity_mention"] = config.strata["identity_mention"]
            self._mentions_identity = mentions_identity
        has_one = self._mentions_identity is None and not self._by_place
        self.sampled_out = ("other" if has_one else UNCLASSIFIED, "sampled_out")
        """What becomes of an untagged request that is out at the largest rate."""
        self._configured = self.rates | {OPTED_IN: 1.0}
        least = config.min_rate
        self._lowest = {
            stratum: LOWEST_FACTOR if least is None or not rate else min(1.0, least / rate)
            for stratum, rate in self._configured.items()
        }
        self.lowest_factor = min(self._lowest.values())
        """The smallest share of any rate that is ever left of it."""
        self.scale(1.0)

    def scale(self, factor: float) -> None:
        """Sets every rate to this share of the configured one, or to the least it may fall to."""
        lowest = self._lowest
        lowered = {name: rate * max(factor, lowest[name]) for name, rate in self._configured.items()}
        self.opted_in_rate = lowered.pop(OPTED_IN)
        self.rates = lowered
        self.factor = max(factor, self.lowest_factor)
        """How far the rates are lowered at most."""
        self.largest = max(rate for stratum, rate in self.rates.items() if stratum not in self.tags)
        """Largest rate of an untagged request."""

    def of(self, body: bytes, tag: str | None, model: str | None, route: str) -> str:
        """The first that applies: tag, model, route, mention of an identity term, other."""
        if tag in self.tags and tag is not None:
            return tag
        if self._by_place:
            for name in (f"{BY_MODEL}{model}", f"{BY_ROUTE}{route}"):
                if name in self._by_place:
                    return name
        if self._mentions_identity is not None:
            end = self.END_BYTES
            searched = body if len(body) <= 2 * end else body[:end] + b" " + body[-end:]
            if self._mentions_identity(searched):
                return "identity_mention"
        return "other"
