"""Seals what is stored: Fernet (AES-128-CBC with HMAC-SHA256), under the newest of the keys; the others only open."""

from typing import TYPE_CHECKING

from gateway.errors import ConfigError

if TYPE_CHECKING:  # loaded only where a key is configured
    from cryptography.fernet import MultiFernet

MAKE_A_KEY = 'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'


class WrongKeyError(Exception):
    """Raised if none of the keys opens this."""


class Cipher:
    """One or more keys, the first of which seals."""

    def __init__(self, fernet: "MultiFernet", variable: str) -> None:
        self._fernet = fernet
        self.variable = variable
        """Name of the environment variable that holds the keys, for messages."""

    def seal(self, plain: bytes) -> bytes:
        return self._fernet.encrypt(plain)

    def open(self, sealed: bytes) -> bytes:
        """Raises WrongKeyError."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken as exc:
            raise WrongKeyError from exc


def cipher_of(keys: str, variable: str) -> Cipher:
    """Return a cipher of keys, newest first, separated by commas or blanks. Raises ConfigError, which shows no key."""
    from cryptography.fernet import Fernet, MultiFernet

    fernets = []
    for number, key in enumerate(keys.replace(",", " ").split(), start=1):
        try:
            fernets.append(Fernet(key))
        except ValueError as exc:
            raise ConfigError(
                f"store.encryption_key_env: key {number} in ${variable} is not a Fernet key (44 URL-safe base64 "
                f"characters): make one with {MAKE_A_KEY}"
            ) from exc
    if not fernets:
        raise ConfigError(f"store.encryption_key_env: ${variable} holds no key: make one with {MAKE_A_KEY}")
    return Cipher(MultiFernet(fernets), variable)


def drawn_key() -> str:
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()
