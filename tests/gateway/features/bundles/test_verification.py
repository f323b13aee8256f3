"""What verification finds: changed, missing and further files, and who signed."""

import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # documented, and not in its __all__

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.archive import ATTESTATION, ArchiveError, Bundle, Writer
from gateway.features.bundles.signing import key_id, read_private_key, read_public_key
from gateway.features.bundles.verification import Verification, verify
from tests.support.benchmarks.bundled import KEY, OTHER_KEY, bundle

PUBLIC = KEY.public_key()


def rewritten(path: Path, changes: dict[str, bytes | None]) -> Path:
    """The bundle with other files in a well-formed archive; None takes one out."""
    files = members(path) | changes
    path.unlink()
    with path.open("wb") as file:
        writer = Writer(file)
        for name in sorted(files, key=lambda name: (name == ATTESTATION, name)):
            content = files[name]
            if content is not None:
                writer.add(name, io.BytesIO(content), len(content))
        writer.close()
    return path


def members(path: Path) -> dict[str, bytes | None]:
    found = Bundle(path)
    contents: dict[str, bytes | None] = {name: found.content(name, most=1 << 20) for name in found.members}
    found.close()
    return contents


def test_as_signed(tmp_path: Path) -> None:
    """A bundle is good with its key among those given, unknown with others, and unsigned without a signature."""
    good = verify(bundle(tmp_path / "b"), [OTHER_KEY.public_key(), PUBLIC])
    assert (good.signed, good.failures, good.n_files) == ("good", [], 4)
    assert verify(tmp_path / "b").signed == "unknown key"
    assert verify(tmp_path / "b", [OTHER_KEY.public_key()]).signed == "unknown key"
    assert verify(bundle(tmp_path / "c", key=None), [PUBLIC]).signed == "none"


def test_every_byte_counts(tmp_path: Path) -> None:
    """Whichever byte of a signed bundle is changed, it is no longer good: every seventh one is tried."""
    whole = bytearray(bundle(tmp_path / "b").read_bytes())
    passed = []
    for place in range(0, len(whole), 7):
        whole[place] ^= 1
        (tmp_path / "c").write_bytes(whole)
        try:
            found: Verification | None = verify(tmp_path / "c", [PUBLIC])
        except ArchiveError:
            found = None
        if found is not None and found.signed == "good" and not found.failures:
            passed.append(place)
        whole[place] ^= 1

    assert len(whole) > 5000
    assert passed == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"result.json": b"{ }"}, "result.json: changed: its sha256 is "),
        ({"result.json": None}, "result.json: missing"),
        ({"notes.txt": b"x"}, "notes.txt: not in the statement"),
        ({ATTESTATION: None}, "attestation.json: missing"),
        ({ATTESTATION: b"{}"}, "attestation.json: no statement that can be read"),
        ({ATTESTATION: b"[" * 1000}, "attestation.json: no statement that can be read"),
        ({ATTESTATION: b" " * ((1 << 20) + 1)}, "attestation.json: attestation.json: 1048577 bytes, more than"),
    ],
)
def test_each_failure_is_a_line(tmp_path: Path, changes: dict[str, bytes | None], line: str) -> None:
    """A changed, missing or further file is named, and a statement that cannot be read said so."""
    [failure] = verify(rewritten(bundle(tmp_path / "b"), changes), [PUBLIC]).failures
    assert failure.startswith(line)
    assert "\n" not in failure


def envelope_of(path: Path) -> dict[str, object]:
    content = members(path)[ATTESTATION]
    assert content is not None
    found: dict[str, object] = json.loads(content)
    return found


def test_a_signature_is_of_its_statement(tmp_path: Path) -> None:
    """The signature of another bundle, or by another key under this one's name, is wrong."""
    theirs = envelope_of(bundle(tmp_path / "a", more_dot_txt=b"x"))
    mine = envelope_of(bundle(tmp_path / "b"))
    moved = json.dumps(mine | {"signatures": theirs["signatures"]}, indent=1).encode() + b"\n"
    assert verify(rewritten(tmp_path / "b", {ATTESTATION: moved}), [PUBLIC]).signed == "wrong"

    forged = envelope_of(bundle(tmp_path / "c", key=OTHER_KEY))
    forged["signatures"] = [{**forged["signatures"][0], "keyid": key_id(PUBLIC)}]  # type: ignore[index]  # a list
    named = json.dumps(forged, indent=1).encode() + b"\n"
    found = verify(rewritten(tmp_path / "c", {ATTESTATION: named}), [PUBLIC])
    assert found.signed == "wrong"
    assert found.failures == [
        "attestation.json: the signature is not of this statement, or not by the key that it names"
    ]


def test_statement_can_be_written_in_one_way_only(tmp_path: Path) -> None:
    """The same JSON with other blanks is refused: no byte is without meaning."""
    content = json.dumps(envelope_of(bundle(tmp_path / "b"))).encode()
    [failure] = verify(rewritten(tmp_path / "b", {ATTESTATION: content}), [PUBLIC]).failures
    assert failure == "attestation.json: not written as biasgate writes it"


def test_dsse_and_in_toto_as_others_read_them(tmp_path: Path) -> None:
    """securesystemslib accepts the envelope with the key; the statement is in-toto's, of every file but itself."""
    path = bundle(tmp_path / "b")
    envelope = Envelope.from_dict(envelope_of(path))
    key = SSlibKey.from_crypto(PUBLIC, keyid=key_id(PUBLIC))
    assert list(envelope.verify([key], 1)) == [key_id(PUBLIC)]

    statement = json.loads(envelope.payload)
    assert envelope.payload_type == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:biasgate:audit-bundle:v1"
    assert [subject["name"] for subject in statement["subject"]] == ["clauses.md", "result.json", "versions.json"]
    assert statement["predicate"]["absent"] == {"ledger.json": "no store"}


def test_wrong_keys_are_said(tmp_path: Path) -> None:
    """A key of another kind, sealed, private where a public one is wanted or none is one line without the key."""
    path = tmp_path / "key.pem"
    pem = (Encoding.PEM, PrivateFormat.PKCS8)
    curve = generate_private_key(SECP256R1())
    for content, words in (
        (curve.private_bytes(*pem, NoEncryption()), "not an Ed25519 key"),
        (KEY.private_bytes(*pem, BestAvailableEncryption(b"x")), "sealed with a password"),
        (b"nothing", "no private key in PEM"),
    ):
        path.write_bytes(content)
        with pytest.raises(BenchmarkError, match=words):
            read_private_key(path)
    for content, words in (
        (KEY.private_bytes(*pem, NoEncryption()), "a private key: keep it"),
        (curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "not an Ed25519 key"),
        (b"nothing", "no public key in PEM"),
    ):
        path.write_bytes(content)
        with pytest.raises(BenchmarkError, match=words):
            read_public_key(path)
    with pytest.raises(BenchmarkError, match="no such file of a key"):
        read_public_key(tmp_path)
