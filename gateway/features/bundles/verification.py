"""Verifies that a bundle holds the files of its statement, and finds its signer."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.archive import ATTESTATION, ArchiveError, Bundle, is_name
from gateway.features.bundles.signing import Envelope, Statement, decode, is_signed_by, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_STATEMENT_BYTES = 1 << 20

Signed = Literal["good", "wrong", "unknown key", "none"]
"""good: by a given key. wrong: several, or not by the given key that it names. unknown key: by another."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification."""

    n_files: int
    failures: Sequence[str]
    """One line each; empty where every file matches the statement and the signature is not wrong."""
    signed: Signed
    signer: str | None = None
    """The id of the key that the signature names."""
    statement: Statement | None = None


def verify(path: Path, keys: Sequence["Ed25519PublicKey"] = ()) -> Verification:
    """Verify a bundle, reading it once in bounded memory; `keys` are trusted. Raises ArchiveError if unreadable."""
    with closing(Bundle(path)) as bundle:
        return verified(bundle, keys)


def verified(bundle: Bundle, keys: Sequence["Ed25519PublicKey"] = ()) -> Verification:
    """Verifies an open bundle, as `verify` does for a path."""
    n_files = len(bundle.members)
    if ATTESTATION not in bundle.members:
        return Verification(n_files=n_files, failures=[f"{ATTESTATION}: missing"], signed="none")
    try:
        envelope, about = decode(bundle.content(ATTESTATION, most=MAX_STATEMENT_BYTES))
    except (ArchiveError, BenchmarkError) as exc:
        return Verification(n_files=n_files, failures=[f"{ATTESTATION}: {exc}"], signed="none")
    signed, signer = _signature(envelope, keys)
    stated = about.digests
    actual = {name: member.sha256 for name, member in bundle.members.items() if name != ATTESTATION}
    lines = [] if len(stated) == len(about.subject) else [f"{ATTESTATION}: names a file twice"]
    for name in sorted(stated.keys() | actual.keys()):
        if name not in actual:
            lines.append(f"{name if is_name(name) else ascii(name[:100])}: missing")
        elif name not in stated:
            lines.append(f"{name}: not in the statement")
        elif stated[name] != actual[name]:
            lines.append(f"{name}: changed: its sha256 is {actual[name]}, the statement says {stated[name]}")
    failures = lines
    if signed == "wrong":
        failures.append(f"{ATTESTATION}: the signature is not of this statement, or not by the key that it names")
    return Verification(n_files=n_files, failures=failures, signed=signed, signer=signer, statement=about)


def _signature(envelope: Envelope, keys: Sequence["Ed25519PublicKey"]) -> tuple[Signed, str | None]:
    if not envelope.signatures:
        return "none", None
    if len(envelope.signatures) > 1:  # biasgate writes one
        return "wrong", None
    [signature] = envelope.signatures
    for key in keys:
        if key_id(key) == signature.keyid:
            return ("good" if is_signed_by(key, signature, envelope.signed) else "wrong"), signature.keyid
    return "unknown key", signature.keyid
