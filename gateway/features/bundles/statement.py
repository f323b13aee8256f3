"""Writes and reads a bundle's statement about its files: an in-toto statement (v1) in a DSSE envelope, each with a
single way to be written.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.archive import Member

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
