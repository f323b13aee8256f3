"""Bundles of a few bytes, and keys to sign them with."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.features.bundles.building import Contents, write_to

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def result(**changes: Any) -> dict[str, Any]:
    """A result with one number, as plain data."""
    estimate = {"metric": "rate", "axis": "gender", "value": 61.2, "lower": 57.9, "upper": 64.6, "n": 251}
    return {
        "suite": "example",
        "suite_version": "1.0",
        "protocol": "corrected",
        "mode": "sample",
        "model": "m",
        "dataset": {"kind": "canonical", "sha256": "0" * 64, "n_used": 2, "n_canonical": 2},
        "counts": {"items": 2, "ok": 2},
        "estimates": [estimate],
        "provenance": {"biasgate": "0.1.0", "prompt_sha256": "1" * 64},
        **changes,
    }


def bundle(path: Path, *, key: Ed25519PrivateKey | None = KEY, **files: bytes) -> Path:
    """A bundle with a result and these files besides, dots of names written as `_dot_`."""
    named: dict[str, Path | bytes] = {name.replace("_dot_", "."): content for name, content in files.items()}
    contents = Contents(result=result(), files={"result.json": b"{}\n", **named}, absent={"ledger.json": "no store"})
    write_to(path, contents, key)
    return path
