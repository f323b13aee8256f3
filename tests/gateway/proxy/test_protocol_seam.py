"""What the relay relies on in uvicorn 0.54: when this fails after an upgrade, read gateway/proxy/protocol.py first."""

import uvicorn


def test_version() -> None:
    """The minor version that the seam was read in."""
    assert uvicorn.__version__.startswith("0.54.")
