"""Where published data and tables lie when they are there: beside the repository, never inside it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
DATA = SHARED / "data"
TABLES = SHARED / "paper_tables"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="published data is not beside the repository (../shared/data)"
)
needs_tables = pytest.mark.skipif(
    not TABLES.is_dir(), reason="the papers' tables are not beside the repository (../shared/paper_tables)"
)
