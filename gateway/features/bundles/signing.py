"""The statement of a bundle, its signature, and Ed25519 keys as openssl makes them (PKCS #8; openssl pkey -pubout)."""

import base64
import codecs
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.archive import Member

if TYPE_CHECKING:  # loaded only where a key is used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:biasgate:audit-bundle:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A file and its hash."""

    name: str
    digest: Mapping[str, str]


class Predicate(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the run whose files the bundle holds, and about its writer."""

    biasgate: str
    """The version that wrote the bundle."""
    run: Mapping[str, Any]
    absent: Mapping[str, str]
    """Files that a bundle may hold and this bundle does not, with the reason."""


class Statement(msgspec.Struct, frozen=True, kw_only=True, rename={"type": "_type"}):
    """An in-toto statement about every file of a bundle but itself."""

    type: str = STATEMENT_TYPE
    subject: Sequence[Subject]
    predicateType: str = PREDICATE_TYPE
    predicate: Predicate

    @property
    def digests(self) -> dict[str, str | None]:
        """sha256 by name."""
        return {subject.name: subject.digest.get("sha256") for subject in self.subject}


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    keyid: str
    sig: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A DSSE envelope; an unsigned envelope has an empty list of signatures."""

    payloadType: str = PAYLOAD_TYPE
    payload: str
    signatures: Sequence[Signature] = ()

    @property
    def content(self) -> bytes:
        """The payload's bytes. Raises ValueError."""
        return base64.b64decode(self.payload, validate=True)

    @property
    def signed(self) -> bytes:
        """The bytes that a signature covers."""
        return pre_authentication(self.payloadType, self.content)


def statement(members: Sequence[Member], run: Mapping[str, Any], absent: Mapping[str, str], version: str) -> Statement:
    subjects = [Subject(name=member.name, digest={"sha256": member.sha256}) for member in members]
    return Statement(subject=subjects, predicate=Predicate(biasgate=version, run=run, absent=absent))


def envelope(about: Statement) -> Envelope:
    """Returns the statement in an envelope without a signature."""
    return Envelope(payload=base64.b64encode(msgspec.json.encode(about)).decode())


def encode(envelope: Envelope) -> bytes:
    return msgspec.json.format(msgspec.json.encode(envelope), indent=1) + b"\n"


def decode(content: bytes) -> tuple[Envelope, Statement]:
    """Raises BenchmarkError for what this module would not have written, byte for byte."""
    try:
        envelope = msgspec.json.decode(content, type=Envelope)
        about = msgspec.json.decode(envelope.content, type=Statement)
    except (ValueError, RecursionError) as exc:
        raise BenchmarkError(f"no statement that can be read: {exc}") from exc
    kinds = (about.type, about.predicateType, envelope.payloadType)
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE, PAYLOAD_TYPE):
        raise BenchmarkError(f"a statement of another kind: {', '.join(kinds)}")
    if encode(envelope) != content or msgspec.json.encode(about) != envelope.content:
        raise BenchmarkError("not written as biasgate writes it")
    return envelope, about


def pre_authentication(payload_type: str, content: bytes) -> bytes:
    """DSSE's PAE: type and content with their lengths."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type.encode()), payload_type.encode(), len(content), content)


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
