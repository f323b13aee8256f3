"""`GET /audits/{id}/bundle`: a run of the store, packed as one file that verifies and scores again."""

import json
import tarfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.features.bundles.rescoring import rescore
from gateway.features.bundles.verification import verify
from gateway.store import ledger
from tests.support.benchmarks.bundled import KEY
from tests.support.commands import scored
from tests.support.gateway.control_plane import control_plane
from tests.support.gateway.finished_runs import finished


async def test_a_run_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bundle is signed with the configured key, has the ledger, and its numbers come out again without items."""
    pem = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    monkeypatch.setenv("BUNDLE_KEY", pem)
    async with control_plane(tmp_path, audits={"bundle_key_env": "BUNDLE_KEY"}) as plane:
        audit_id = await finished(plane, scored(tmp_path / "run"))
        async with plane.database.begin() as connection:
            await ledger.add(connection, {("other", "audited"): 3, ("other", "failed"): 1})
        answer = await plane.http.get(f"/audits/{audit_id}/bundle")

    path = tmp_path / "b"
    path.write_bytes(answer.content)
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["content-disposition"] == f'attachment; filename="{audit_id}.bundle"'
    found = verify(path, [KEY.public_key()])
    assert (found.failures, found.signed) == ([], "good")
    assert found.statement is not None
    assert found.statement.predicate.absent.keys() == {"items.jsonl", "labels/"}
    with tarfile.open(path) as archive:
        kept = json.load(archive.extractfile("ledger.json"))  # type: ignore[arg-type]  # a plain file
    assert (kept["outcomes"], kept["strata"]) == ({"audited": 3, "failed": 1}, {"other": {"audited": 3, "failed": 1}})
    again = rescore(path)
    assert (again.n_same, again.differences) == (75, [])
    assert again.notes[0] == "items: made again from the data here"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [("BUNDLE_KEY", "nonsense", "no private key in PEM"), ("NOT_SET", None, '"NOT_SET" is named in the configuration')],
)
async def test_a_wrong_key_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None, words: str
) -> None:
    """A key that is none is a 503 that names the setting and shows nothing of the key."""
    if value is not None:
        monkeypatch.setenv(variable, value)
    async with control_plane(tmp_path, audits={"bundle_key_env": variable}) as plane:
        audit_id = await finished(plane, scored(tmp_path / "run"))
        answer = await plane.http.get(f"/audits/{audit_id}/bundle")

    assert answer.status_code == 503
    assert words in answer.json()["detail"]
    assert "nonsense" not in answer.text
