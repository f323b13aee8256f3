"""Decides which clients may send a request, how often, and with which rights; the tests' oracle uses it too."""

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from auditors.clients.inflating import INFLATED_ENCODINGS, InflateError, Inflater
from gateway.config.schema import Config, KeyConfig
from gateway.errors import ConfigError
from gateway.proxy import refusals
from gateway.proxy.body import BodyLimit, RequestBody, read_body
from gateway.proxy.headers import RequestHead
from gateway.proxy.refusals import Refusal
from gateway.worker_files import NUMBER_BYTES, shared_number

WINDOW_SECONDS = 60.0
_ROUNDING = 1e-6


class TokenBucket:
    """Allows `per_minute` requests a minute, all of them at once if they come at once."""

    __slots__ = ("_cell", "_seconds_each", "per_minute")

    def __init__(self, per_minute: int, cell: "memoryview[float] | None" = None) -> None:
        """Starts as `cell` says, a `shared_number`; without one, full and alone."""
        self.per_minute = per_minute
        self._seconds_each = WINDOW_SECONDS / per_minute
        self._cell = cell if cell is not None else memoryview(bytearray(NUMBER_BYTES)).cast("d")

    def take(self, now: float) -> float:
        """0 when a request may pass at time `now` (time.perf_counter()), else the seconds until one may."""
        full_at = self._cell[0]
        # More than a window ahead: written before the machine's clock began anew.
        if full_at < now or full_at > now + WINDOW_SECONDS + _ROUNDING:
            full_at = now
        full_at += self._seconds_each
        wait = full_at - now - WINDOW_SECONDS
        if wait > _ROUNDING:
            return wait
        self._cell[0] = full_at
        return 0.0


def shared_bucket(per_minute: int, key_name: str, directory: Path) -> TokenBucket:
    """The bucket that processes with this directory share for a key. Raises OSError if it cannot be written."""
    name = hashlib.blake2b(key_name.encode(), digest_size=16).hexdigest()
    return TokenBucket(per_minute, shared_number(directory / f"{name}.limit"))


MOST_INFLATED_BYTES = 4 * 1024 * 1024
"""Decompressed in 15 ms of a worker's time. A larger body has to be sent uncompressed."""


def read_encoded_body(
    content: bytes, coding: str, aliases: Mapping[str, str], *, may_set_priority: bool
) -> RequestBody | Refusal:
    """Read a compressed body, which stays as it is; refused: what `read_body` refuses or changes, or is too large. A
    body that cannot be decompressed to its end is judged by its beginning, as a more lenient reader would see it.
    """
    inflated = bytearray()
    with suppress(InflateError):
        for piece in Inflater(coding).pieces(content):
            inflated += piece
            if len(inflated) > MOST_INFLATED_BYTES:
                break
    plain = bytes(inflated)
    if BodyLimit(MOST_INFLATED_BYTES).refusal(plain, plain) is not None:
        what = f"more than {MOST_INFLATED_BYTES} bytes or too many values when decompressed"
        return refusals.encoded_body_to_change(what)
    seen = read_body(plain, aliases, may_set_priority=may_set_priority)
    if isinstance(seen, Refusal):
        return seen
    if seen.content != plain:
        return refusals.encoded_body_to_change("a priority that its key may not set, or a model with an alias")
    return RequestBody(content, seen.model, seen.served_model, seen.stream)


__all__ = ["PREFLIGHT", "Admission", "Client", "Refusal", "RequestBody", "RequestHead"]


class Client(msgspec.Struct, frozen=True):
    """The rights of the key behind a request."""

    name: str | None
    may_opt: bool
    may_set_priority: bool
    bucket: TokenBucket | None = None
    is_audited: bool = True
    may_state_rate: bool = False
    """True if the sampling rates that it states for recorded exchanges are believed."""


PREFLIGHT = Client(name=None, may_opt=False, may_set_priority=False)
"""The browser that asks beforehand if a page may send a request: it has no key and sends none of an upstream's."""
ANONYMOUS = Client(name=None, may_opt=True, may_set_priority=False)
"""The client where no [[keys]] are configured: no one may jump the queue, and no stated sampling rate is believed."""


class Admission:
    """The gate before the data plane. Raises ConfigError for a key's variable that is not set, or equal keys."""

    def __init__(self, config: Config) -> None:
        self.max_body_bytes = config.server.max_body_bytes
        self.aliases = config.aliases
        self.checks_keys = bool(config.keys)
        self._salt = secrets.token_bytes(32)
        self._clients: dict[bytes, Client] = {}
        for key in config.keys:
            digest = self._digest((config.secret(key.key_env) or "").encode())
            if (other := self._clients.get(digest)) is not None:
                raise ConfigError(f'keys "{other.name}" and "{key.name}" have the same value: give each its own')
            self._clients[digest] = Client(
                name=key.name,
                may_opt=key.may_opt_out,
                may_set_priority=key.may_set_priority,
                bucket=_bucket(key, config.server.metrics_dir),
                is_audited=key.audit,
                may_state_rate=key.may_state_rate,
            )

    def admit(self, head: RequestHead, now: float) -> Client | Refusal:
        """Decides on the headers alone, before any of the body is read. `now` is time.perf_counter()."""
        if head.content_length is not None and head.content_length > self.max_body_bytes:
            return refusals.request_too_large(self.max_body_bytes)
        if not self.checks_keys:
            return refusals.encoded_body(head.content_encoding) if _is_encoded(head) else ANONYMOUS
        # A head that comes again on its connection was read by this gate before, with the same key in it.
        noted = head.identified
        client = noted[1] if noted is not None and noted[0] is self else self._identify(head)
        head.identified = (self, client)
        if client is None:
            return refusals.UNAUTHORIZED
        if _is_encoded(head):
            return refusals.encoded_body(head.content_encoding)
        if client.bucket is not None and (wait := client.bucket.take(now)):
            return refusals.rate_limited(int(wait) + 1)
        return client

    def admit_preflight(self, head: RequestHead, now: float) -> Client | Refusal:
        """Decide on a browser's preflight that an upstream is to answer: without a body it needs no key."""
        if not self.checks_keys or head.has_body:
            return self.admit(head, now)
        return PREFLIGHT

    def inherit(self, previous: "Admission") -> None:
        """Keeps what each key has used up of its minute, where its limiter is the same as before."""
        used = {client.name: client.bucket for client in previous._clients.values()}
        for digest, client in self._clients.items():
            bucket = used.get(client.name)
            if bucket and client.bucket and bucket.per_minute == client.bucket.per_minute:
                self._clients[digest] = msgspec.structs.replace(client, bucket=bucket)

    def read(self, content: bytes, client: Client, head: RequestHead) -> RequestBody | Refusal:
        """The body after policy: see `read_body`. An audit's priority is the gateway's to set, whatever its key may."""
        may_set_priority = client.may_set_priority and not head.is_audit
        if head.content_encoding and content:
            return read_encoded_body(
                content, head.content_encoding.decode("latin-1"), self.aliases, may_set_priority=may_set_priority
            )
        return read_body(content, self.aliases, may_set_priority=may_set_priority)

    def _identify(self, head: RequestHead) -> Client | None:
        presented = head.key
        if head.authorization is not None:
            scheme, _, credential = head.authorization.partition(b" ")
            if scheme.lower() == b"bearer":
                presented = credential.strip()
        if not presented:
            return None
        return self._clients.get(self._digest(presented))

    def _digest(self, key: bytes) -> bytes:
        """Looking a salted digest up takes a time that tells nothing about the keys."""
        return hashlib.blake2b(key, key=self._salt, digest_size=32).digest()


def _is_encoded(head: RequestHead) -> bool:
    """Return whether a body follows that cannot be decoded here: a priority or a model in it would pass unseen."""
    is_unknown = head.content_encoding and head.content_encoding.decode("latin-1") not in INFLATED_ENCODINGS
    return bool(is_unknown) and head.has_body and head.content_length != 0


def _bucket(key: KeyConfig, shared: str | None) -> TokenBucket | None:
    if key.requests_per_minute is None:
        return None
    if shared is None:
        return TokenBucket(key.requests_per_minute)
    try:
        return shared_bucket(key.requests_per_minute, key.name, Path(shared))
    except OSError as exc:
        raise ConfigError(f'server.metrics_dir "{shared}" cannot be written: {exc.strerror}') from exc
