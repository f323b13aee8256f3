"""The upstreams of this gateway, what is known about each, and which one gets a request."""

import logging
import math
import re
import ssl
from collections.abc import Callable, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from auditors.addresses import mask_url, without_credentials
from gateway.config.schema import Config, UpstreamConfig
from gateway.errors import ConfigError
from gateway.proxy.headers import LOCATIONS
from gateway.proxy.live_waits import LiveWaits
from gateway.proxy.outlier_detector import OutlierDetector
from gateway.proxy.pool import ConnectFailure, Pool

logger = logging.getLogger(__name__)

GATEWAY_ERRORS = frozenset({502, 503, 504})
"""Statuses with which something in front of a model says that the model cannot answer."""
_DEFAULT_PORTS = frozenset({80, 443})
LONGEST_DEBT = 32.0
"""Turns that an upstream may be behind by: it gets no more than these in a row when it is free at last."""

_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


class Upstream:
    """One model server. Starts as up: the first request or check finds out."""

    def __init__(self, config: UpstreamConfig, api_key: str | None, tls: ssl.SSLContext | None) -> None:
        self.config = config
        self.name = config.name
        self.origin = config.origin
        self.url = without_credentials(config.origin)
        """Its address as operators are told it; applications are not."""
        self.timeouts = config.timeouts
        url = _split(config)
        self.prefix = url.path.encode("ascii", "replace")
        """Path in front of /v1, mostly empty."""
        self.host_line = b"host: %b\r\n" % url.netloc.rpartition("@")[2].encode(
            "idna" if not url.netloc.isascii() else "ascii"
        )
        self.authorization_line = b"authorization: Bearer %b\r\n" % api_key.encode() if api_key else b""
        names = {name.lower().encode(): value.encode() for name, value in config.audit_headers.items()}
        self.audit_names = frozenset(names)
        self.audit_lines = [b"%b: %b\r\n" % line for line in names.items()]
        """Headers of an audit's requests there."""
        self.label_line = b"x-biasgate-upstream: %b\r\n" % _UNPRINTABLE.sub("?", config.name).encode()
        self.is_wildcard = "*" in config.models
        self.models = frozenset(config.models) - {"*"}
        """Models known to be served here: configured, and found by asking."""
        self.model_entries: list[dict[str, Any]] = []
        """Entries of its last /v1/models."""
        self.fingerprint: str | None = None
        self.is_up = True
        self.down_reason = ""
        self.list_problem = ""
        """What is wrong with its answer to a request for its models."""
        self.has_served = False
        """It answered a relayed request with success: its base_url is right."""
        self.outstanding = 0
        """Requests being relayed there by this worker."""
        self.hash_seed = int.from_bytes(blake2b(config.name.encode(), digest_size=8).digest())
        """See `gateway.proxy.affinity`."""
        self.waits = LiveWaits()
        self.outliers = OutlierDetector(config.ejection)
        self.weight = config.weight
        """The configured weight, less while it comes back from an outage."""
        self.turn = 0.0
        """How much it has been chosen, per weight; infinite until the next tick when it has just come back."""
        is_tls = url.scheme == "https"
        self.api_key = api_key
        self.address = (url.hostname or "", url.port or (443 if is_tls else 80))
        """Host and port."""
        self.pool = Pool(
            *self.address,
            tls=tls if is_tls else None,
            max_connections=config.max_connections,
            connect_seconds=config.timeouts.connect,
            owner=self,
        )

    @property
    def is_available(self) -> bool:
        """Up, and not left out for its failures."""
        return self.is_up and not self.outliers.is_ejected

    def without_own_address(self, lines: list[bytes]) -> list[bytes]:
        """Return header lines in which addresses at this upstream become the gateway's; others stay."""
        return [self._public(line) if line.partition(b":")[0].lower() in LOCATIONS else line for line in lines]

    def _public(self, line: bytes) -> bytes:
        name, _, value = line.partition(b":")
        try:
            url = urlsplit(value.strip().decode("latin-1"))
            port = url.port
        except ValueError:  # no address of anything
            return line
        prefix = self.prefix.decode("latin-1")
        has_prefix = bool(prefix) and url.path.startswith(prefix + "/")
        if url.netloc:
            host, own_port = self.address
            is_own_port = port == own_port or (port is None and own_port in _DEFAULT_PORTS)
            if url.scheme not in ("http", "https", "") or url.hostname != host or not is_own_port:
                return line
        elif url.scheme or not has_prefix:
            return line
        # More than one slash at its beginning would name another host.
        path = "/" + (url.path.removeprefix(prefix) if has_prefix else url.path).lstrip("/\\")
        public = urlunsplit(("", "", path, url.query, url.fragment))
        return b"%b: %b\r\n" % (name, public.encode("latin-1"))

    def mark_up(self) -> None:
        """A health check passed. After an outage the traffic returns slowly."""
        if self.is_up:
            return
        self.is_up = True
        self.down_reason = ""
        logger.warning("upstream %s is up again", self.name)
        if not self.outliers.is_ejected:
            self.outliers.uneject(perf_counter())
            self._start_slowly()

    def mark_down(self, reason: str) -> None:
        """It gets no requests until a health check passes; those that wait for a connection may go elsewhere."""
        was_up, self.is_up = self.is_up, False
        self.down_reason = reason
        if was_up:
            logger.warning("upstream %s (%s) is down: %s", self.name, self.url, reason)
            self.pool.notify_waiters()

    def request_failed(self, what: str, sent_at: float) -> None:
        """A request sent at `sent_at` (time.perf_counter()) got no complete answer, or one of GATEWAY_ERRORS."""
        seconds = self.outliers.failed(perf_counter(), sent_at=sent_at)
        if seconds is not None:
            self._ejected(seconds, what)

    def connect_failed(self, failure: ConnectFailure) -> None:
        """Take note of the pool's failure: a server that takes no connection is down, and suspect when up again."""
        if not failure.is_ours:
            self.mark_down(str(failure))
            now = perf_counter()
            self.outliers.failed(now, sent_at=now)

    def connects_slowly(self, seconds: float, what: str = "did not accept a connection") -> None:
        """Take note that the pool waits for a connection, or health checks for answers: others are preferred."""
        if self.is_available:
            self._ejected(self.outliers.eject(perf_counter()), f"{what} within {seconds:g} s")

    def _ejected(self, seconds: float, what: str) -> None:
        logger.warning("upstream %s (%s) is ejected for %g s: %s", self.name, self.url, seconds, what)
        self.pool.notify_waiters()

    def tick(self, now: float) -> None:
        self.pool.tick(now)
        if self.outliers.tick(now):
            logger.warning("upstream %s gets requests again", self.name)
            self._start_slowly()
        self.weight = self.config.weight * self.outliers.share

    def _start_slowly(self) -> None:
        self.weight = self.config.weight * self.outliers.share
        self.turn = math.inf

    def set_served_models(self, entries: Sequence[dict[str, Any]], fingerprint: str) -> None:
        """Takes the upstream's own model list; only a "*" adds those models to the configured ones."""
        self.model_entries = list(entries)
        self.fingerprint = fingerprint
        if self.is_wildcard:
            model_ids = {entry["id"] for entry in entries}
            self.models = frozenset(self.config.models) - {"*"} | model_ids


class Upstreams:
    """All upstreams, in order. Raises ConfigError for an API key's unset variable or a base_url that is not a URL."""

    def __init__(self, config: Config) -> None:
        tls = None
        if any(upstream.base_url.startswith("https://") for upstream in config.upstreams):
            tls = ssl.create_default_context()
        self.tls = tls
        self.all = [Upstream(upstream, config.secret(upstream.api_key_env), tls) for upstream in config.upstreams]

    def choose(
        self,
        model: str | None,
        *,
        exclude: Sequence[Upstream] = (),
        choice: Callable[[list[Upstream]], Upstream] | None = None,
    ) -> Upstream | None:
        """Return the upstream for a request; None if none is up. Of those that serve the model, ejected ones last, the
        balanced or that of `choice`; for an unknown model a wildcard, whose answer is the answer; for None always the
        first.
        """
        if len(self.all) == 1:
            only = self.all[0]
            return only if only.is_up and only not in exclude else None
        candidates = [
            upstream
            for upstream in self.all
            if model in upstream.models
            and upstream.is_up
            and not upstream.outliers.is_ejected
            and upstream not in exclude
        ]
        if not candidates:
            candidates = self._fallback(model, exclude)
            if not candidates or model is None:
                return candidates[0] if candidates else None
        if len(candidates) == 1:
            return candidates[0]
        return _balanced(candidates) if choice is None else choice(candidates)

    def _fallback(self, model: str | None, exclude: Sequence[Upstream]) -> list[Upstream]:
        up = [upstream for upstream in self.all if upstream.is_up and upstream not in exclude]
        if model is None:
            return _not_ejected(up)
        if any(model in upstream.models for upstream in self.all):
            return [upstream for upstream in up if model in upstream.models]
        return _not_ejected([upstream for upstream in up if upstream.is_wildcard] or up)

    def tick(self, now: float) -> None:
        for upstream in self.all:
            upstream.tick(now)
        furthest = max((u.turn for u in self.all if u.turn < math.inf), default=0.0)
        for upstream in self.all:
            debt = 0.0 if upstream.turn == math.inf else min(furthest - upstream.turn, LONGEST_DEBT / upstream.weight)
            upstream.turn = -debt  # only differences count, and small numbers stay exact


def _not_ejected(candidates: list[Upstream]) -> list[Upstream]:
    return [upstream for upstream in candidates if not upstream.outliers.is_ejected] or candidates


def _balanced(candidates: list[Upstream]) -> Upstream:
    """Choose by turns, weighted, among those below their fair share in flight: less load on slow and stuck ones."""
    in_flight, weights = 1, 0.0
    for upstream in candidates:
        in_flight += upstream.outstanding
        weights += upstream.weight
    per_weight = in_flight / weights
    chosen = None
    for upstream in candidates:
        has_room = upstream.outstanding < per_weight * upstream.weight - 1e-9
        if has_room and (chosen is None or upstream.turn < chosen.turn):
            chosen = upstream
    if chosen is None:  # by arithmetic somebody has room; a rounding error must not lose a request
        chosen = min(candidates, key=lambda upstream: upstream.outstanding)
    chosen.turn += 1 / chosen.weight
    return chosen


def _split(config: UpstreamConfig) -> Any:
    setting = f'upstreams.{config.name}.base_url "{mask_url(config.base_url)}"'
    try:
        url = urlsplit(config.origin)
        _ = url.port
    except ValueError as exc:
        raise ConfigError(f"{setting} is not a URL: {exc}") from exc
    if not url.hostname:
        raise ConfigError(f"{setting} names no host")
    return url
