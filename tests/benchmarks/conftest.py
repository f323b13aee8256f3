"""The published data, fetched once for all tests that are marked `network`."""

from pathlib import Path

import pytest

from benchmarks.datasets import fetching
from benchmarks.suites.registry import datasets
from tests.support.published import FETCHED


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of all data sets that may be fetched."""
    folder = tmp_path_factory.mktemp("home")
    for name in FETCHED:
        fetching.fetch(datasets()[name], data_dir=folder)
    return folder
