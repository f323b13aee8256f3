"""Groups requests, so that the upstream with their prefix in its cache gets them again: rendezvous hashing with bounded
loads. Each key ranks the upstreams and gets the first with room; when an upstream goes, its keys alone move. All
workers and gateways of one configuration agree, and nothing is remembered.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b

from gateway.config.schema import BalancingConfig
from gateway.proxy.headers import RequestHead
from gateway.proxy.upstreams import Upstream

SEARCHED_BYTES = 64 * 1024
"""Most bytes of a body in which the prompt's beginning is looked for."""

_PROMPTS = (b'"messages"', b'"prompt"', b'"input"')
_MASK = 2**64 - 1


class Affinity:
    """The routing of a single configuration (`[balancing]`)."""

    def __init__(self, config: BalancingConfig) -> None:
        self._line = b"%b: " % config.header.lower().encode() if config.header is not None else None
        self._prefix_bytes = config.prefix_bytes
        self._ratio = config.max_load_ratio

    def key(self, head: RequestHead, content: bytes) -> int | None:
        """Return the key of a request; None for a request that belongs nowhere. `content` is its body."""
        if self._line is not None:
            for line in head.lines:
                if line.startswith(self._line):
                    return _digest(line)
        if not self._prefix_bytes or not content:
            return None
        return _digest(_prompt(content, self._prefix_bytes))

    def choose(self, candidates: Sequence[Upstream], key: int) -> Upstream:
        """Return the upstream that this key ranks first of those within `max_load_ratio` of their fair share."""
        in_flight, weights = 1, 0.0
        for upstream in candidates:
            in_flight += upstream.outstanding
            weights += upstream.weight
        per_weight = self._ratio * in_flight / weights
        ranked = sorted(candidates, key=lambda upstream: _rank(upstream, key))
        for upstream in ranked:
            if upstream.outstanding < math.ceil(per_weight * upstream.weight - 1e-9):
                return upstream
        return ranked[0]  # by arithmetic somebody has room; a rounding error must not lose a request


def _prompt(content: bytes, n_bytes: int) -> bytes:
    """The first bytes of what is asked, from the name of its member on; of the body where there is none."""
    for name in _PROMPTS:
        at = content.find(name, 0, SEARCHED_BYTES)
        if at >= 0:
            return content[at : at + n_bytes]
    return content[:n_bytes]


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def _rank(upstream: Upstream, key: int) -> float:
    """Return a key's Exp(weight) draw; the least wins (Schindelhauer and Schomaker, SPAA 2005: logarithmic method)."""
    mixed = (key ^ upstream.hash_seed) & _MASK  # splitmix64's finalizer
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    mixed ^= mixed >> 31
    return -math.log((mixed + 1) / 2**64) / upstream.weight
