"""A fresh store for each test, on SQLite and on PostgreSQL."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gateway.store.database import Database
from tests.support.postgres import Scratch
from tests.support.store.migrated import write_migrated
from tests.support.tables import ROW

settings.register_profile("without deadlines", deadline=None)  # a machine may be busy
settings.load_profile("without deadlines")


@pytest.fixture(scope="session")
def postgres_empty() -> Iterator[Scratch]:
    """For tests that migrate it themselves."""
    scratch = Scratch()
    yield scratch
    scratch.drop()


@pytest.fixture(scope="session")
def postgres_migrated() -> Iterator[Scratch]:
    """For tests of an open store: its tables stay from test to test."""
    scratch = Scratch()
    yield scratch
    scratch.drop()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_empty: Scratch, postgres_migrated: Scratch
) -> str:
    """URL of an empty database of this test's own, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        if "database" in request.fixturenames:
            write_migrated(tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    if "database" in request.fixturenames:
        return postgres_migrated.emptied(keep_tables=True)
    return postgres_empty.emptied(keep_tables=False)


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """An open, migrated store."""
    opened = await Database.open(store_url)
    yield opened
    await opened.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out the databases of which a test says nothing: see the marker `stores`."""
    items[:] = [item for item in items if _is_wanted(item)]


def _is_wanted(item: pytest.Item) -> bool:
    marker, params = item.get_closest_marker("stores"), getattr(getattr(item, "callspec", None), "params", {})
    return marker is None or params.get("store_url", marker.args[0]) in marker.args


def pytest_sessionfinish() -> None:
    """Ends the Chromium that tests share, where one of them has started it."""
    if (support := sys.modules.get("tests.support.browser")) is not None:
        support.Chromium.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests measured, a row each (`record_property(ROW, text)`), whether they passed or not."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    rows = [str(value) for report in reports for name, value in report.user_properties if name == ROW]
    if rows:
        terminalreporter.section("measured")
        for row in sorted(rows):
            terminalreporter.write_line(row)
