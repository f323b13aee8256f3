"""Published data: the sets that may be fetched, and what lies beside the repository where it is there."""

import os
from pathlib import Path

import pytest

from benchmarks.datasets.spec import MIRROR_VARIABLE
from benchmarks.suites.registry import datasets

FETCHED = sorted(
    name
    for name, known in datasets().items()
    if known.content_sha256 and (not known.by_hand or MIRROR_VARIABLE in os.environ)
)
"""Names of the sets with a pinned content; those that users get by hand only from a mirror."""

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="published data is not beside the repository (../shared/data)"
)
