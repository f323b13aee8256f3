"""Prepares the text of exchanges for the store and reads it back: redacted first, then sealed, if so configured."""

import hashlib
from collections import Counter
from collections.abc import Mapping

import msgspec

from auditors.types import Exchange
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.privacy.bodies import redacted_request, redacted_response, user_of
from gateway.privacy.encryption import Cipher, WrongKeyError, cipher_of
from gateway.privacy.media import numbers_kept
from gateway.privacy.redaction import Redactor

DRAWN_KEY_VARIABLE = "BIASGATE_DRAWN_TEXT_KEY"
"""Variable in which `biasgate serve` hands a key to its processes that is never seen anywhere else."""


class StoredText(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an exchange's text that the store keeps."""

    request_body: bytes
    response_body: bytes
    is_sealed: bool
    user: str | None
    """The user, as the client named them; the store keeps a digest only."""
    redactions: Mapping[str, int]
    """Number of places that were replaced, by kind."""


class Texts:
    """The store's rules for text. `redactor` None: stored as it was. `cipher` None: stored readable. `has_lasting_key`
    False: the cipher's key was drawn for this start, so no store has to fit it.
    """

    def __init__(
        self, redactor: Redactor | None = None, cipher: Cipher | None = None, *, has_lasting_key: bool = True
    ) -> None:
        self.redactor = redactor
        self.cipher = cipher
        self.has_lasting_key = has_lasting_key

    def enter(self, exchange: Exchange) -> StoredText:
        """Return the text to store of an exchange; takes processor time in proportion to its bodies."""
        counts: Counter[str] = Counter()
        request, response = exchange.request_body, exchange.response_body
        user = user_of(request)
        if self.redactor is not None:
            request = redacted_request(request, self.redactor, counts, numbers_kept(exchange.endpoint))
            response = redacted_response(response, self.redactor, counts)
        if self.cipher is not None:
            request, response = self.cipher.seal(request), self.cipher.seal(response)
        return StoredText(
            request_body=request,
            response_body=response,
            is_sealed=self.cipher is not None,
            user=user,
            redactions=dict(counts),
        )

    def sealed(self, body: bytes) -> tuple[bytes, bool]:
        """A body that is redacted already as it is to be stored, and whether it is sealed."""
        return (body, False) if self.cipher is None else (self.cipher.seal(body), True)

    def opens(self, body: bytes, *, is_sealed: bool) -> bool:
        """Return whether `leave` gives a stored body as it went in, if that was empty."""
        if not is_sealed:
            return True
        try:
            return self.cipher is not None and self.cipher.open(bytes(body)) is not None
        except WrongKeyError:
            return False

    def leave(self, body: bytes | None, *, is_sealed: bool) -> bytes:
        """A stored body as it went in; empty when it was dropped, or when none of the keys opens it."""
        if body is None or (is_sealed and self.cipher is None):
            return b""
        try:
            return self.cipher.open(bytes(body)) if self.cipher and is_sealed else bytes(body)
        except WrongKeyError:
            return b""


def user_digest(user: str, salt: bytes) -> str:
    """A store's own pseudonym of a user: finds their exchanges again without keeping who they are."""
    return hashlib.blake2b(user.encode("utf-8", "surrogatepass"), key=salt, digest_size=16).hexdigest()


def texts_of(config: Config) -> Texts:
    """Return the rules of the [store] section. Raises ConfigError when a key is missing or malformed."""
    store = config.store
    redactor = Redactor(store.redact) if store.redact else None
    variable = store.encryption_key_env
    keys = config.secret(variable)
    if keys is not None and variable is not None:
        return Texts(redactor, cipher_of(keys, variable), has_lasting_key=variable != DRAWN_KEY_VARIABLE)
    if store.keep_text == "never":
        raise ConfigError(
            'store.keep_text = "never" needs a key that gateway and auditor share: start both with `biasgate serve`, '
            "which draws one, or name one in store.encryption_key_env"
        )
    return Texts(redactor)
