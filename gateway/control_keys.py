"""The control keys and the console's sessions. No web framework: the auditor checks the same keys at its endpoint."""

import base64
import hashlib
import hmac
import secrets
import time
from typing import Literal, NamedTuple

from gateway.config.schema import ADMIN, Config, ControlKeyConfig
from gateway.errors import ConfigError

Role = Literal["viewer", "admin", "rater"]

SESSION_SECONDS = 8 * 3600
"""A working day; then the console asks for the key again."""


class Holder(NamedTuple):
    """The holder of a control key, or of a rater's link."""

    name: str
    role: Role
    project: str | None = None
    """The labelling project that a rater's link opens; None for a control key."""


class _Key(NamedTuple):
    holder: Holder
    digest: bytes
    """Digest of the key, under the salt of this process: comparing it takes a time that tells nothing."""
    signing: bytes
    """Signs this key's sessions; derived from the key alone: workers, restarts, gateways agree, a new key ends them."""


class ControlKeys:
    """The keys of a configuration; falsy without any: open. ConfigError: an unset variable, or equal values."""

    def __init__(self, config: Config) -> None:
        self._salt = secrets.token_bytes(32)
        self._keys: list[_Key] = []
        for key in _configured(config):
            self._add(key, (config.secret(key.key_env) or "").encode())

    def __bool__(self) -> bool:
        return bool(self._keys)

    def holder(self, authorization: str) -> Holder | None:
        """Return the holder of the key in an Authorization header; None for an unknown key."""
        scheme, _, presented = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = self._digest(presented.strip().encode("latin-1", "replace"))
        matched = None
        for key in self._keys:  # to the end, whichever it is
            if hmac.compare_digest(digest, key.digest):
                matched = key.holder
        return matched

    def session(self, holder: Holder, now: float | None = None) -> tuple[str, int]:
        """A new session of this holder: its cookie's value, and the Unix second in which it ends."""
        [key] = [key for key in self._keys if key.holder == holder]
        expires = int(time.time() if now is None else now) + SESSION_SECONDS
        name = base64.urlsafe_b64encode(holder.name.encode()).decode().rstrip("=")
        unsigned = f"{name}.{expires}.{secrets.token_hex(8)}"
        return f"{unsigned}.{_signature(key, unsigned)}", expires

    def session_holder(self, value: str, now: float | None = None) -> tuple[Holder, int] | None:
        """Return the holder of a session by its cookie, and its end; None if it is over, made up or withdrawn."""
        unsigned, _, signature = value.rpartition(".")
        name, _, rest = unsigned.partition(".")
        expires = rest.partition(".")[0]
        if not (expires.isascii() and expires.isdecimal() and len(expires) <= 12):
            return None
        if int(expires) <= (time.time() if now is None else now):
            return None
        for key in self._keys:
            encoded = base64.urlsafe_b64encode(key.holder.name.encode()).decode().rstrip("=")
            if encoded == name and hmac.compare_digest(_signature(key, unsigned).encode(), signature.encode()):
                return key.holder, int(expires)
        return None

    def _add(self, configured: ControlKeyConfig, value: bytes) -> None:
        digest = self._digest(value)
        for other in self._keys:
            if hmac.compare_digest(other.digest, digest):
                raise ConfigError(
                    f'control keys "{other.holder.name}" and "{configured.name}" have the same value: give each its own'
                )
        signing = hashlib.blake2b(value, digest_size=32, person=b"biasgate session").digest()
        self._keys.append(_Key(Holder(configured.name, configured.role), digest, signing))

    def _digest(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, key=self._salt, digest_size=32).digest()


def _configured(config: Config) -> list[ControlKeyConfig]:
    variable = config.server.admin_key_env
    ours = [ControlKeyConfig(name=ADMIN, key_env=variable, role="admin")] if variable else []
    return [*ours, *config.server.control_keys]


def _signature(key: _Key, unsigned: str) -> str:
    return hmac.new(key.signing, unsigned.encode(), hashlib.sha256).hexdigest()
