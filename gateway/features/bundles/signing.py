"""Ed25519 keys as openssl makes them: openssl genpkey -algorithm ed25519 (PKCS #8) and openssl pkey -pubout."""

import base64
import codecs
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.statement import Envelope, Signature

if TYPE_CHECKING:  # loaded only where a key is used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAKE_A_KEY = "openssl genpkey -algorithm ed25519 -out KEY.pem"
TAKE_THE_PUBLIC_KEY = "openssl pkey -in KEY.pem -pubout -out PUBLIC.pem"
MAX_KEY_BYTES = 1 << 16


def sign(unsigned: Envelope, key: "Ed25519PrivateKey") -> Envelope:
    signature = Signature(keyid=key_id(key.public_key()), sig=base64.b64encode(key.sign(unsigned.signed)).decode())
    return msgspec.structs.replace(unsigned, signatures=[signature])


def is_signed_by(key: "Ed25519PublicKey", signature: Signature, content: bytes) -> bool:
    """Returns whether the key made the signature of `content`."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature.sig, validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id(key: "Ed25519PublicKey") -> str:
    """sha256 of the key as a DER SubjectPublicKeyInfo."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def private_key(pem: bytes, where: str) -> "Ed25519PrivateKey":
    """Raises BenchmarkError, one line without a word of the key; `where` is where it came from."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        raise BenchmarkError(f"{where}: the key is sealed with a password: name one that is not") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BenchmarkError(f"{where}: no private key in PEM: make one with {MAKE_A_KEY}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BenchmarkError(f"{where}: not an Ed25519 key: make one with {MAKE_A_KEY}")
    return key


def read_private_key(path: Path) -> "Ed25519PrivateKey":
    """Raises BenchmarkError."""
    return private_key(_read(path), str(path))


def read_public_key(path: Path) -> "Ed25519PublicKey":
    """Raises BenchmarkError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem = _read(path)
    if b"PRIVATE KEY" in pem:
        raise BenchmarkError(f"{path}: a private key: keep it, and take the public one: {TAKE_THE_PUBLIC_KEY}")
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise BenchmarkError(f"{path}: no public key in PEM: take one with {TAKE_THE_PUBLIC_KEY}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BenchmarkError(f"{path}: not an Ed25519 key")
    return key


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise BenchmarkError(f"{path}: no such file of a key")
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES).removeprefix(codecs.BOM_UTF8)
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
