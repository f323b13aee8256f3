"""Two auditors on one store, as they run: one export of what was measured, and the metrics of it."""

from functools import partial
from pathlib import Path

from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, exposes, labelled, until
from tests.support.simulated import running_simulator
from tests.support.store.exported import add, read


async def test_auditors_export_once(database: Database, tmp_path: Path) -> None:
    """Whichever is first writes; both tell the same of it."""
    await add(database, 500, days=2)
    address = str(tmp_path / "export")
    async with running_simulator() as upstream:
        config = config_for(database.url, upstream, export={"url": address})
        async with auditing(config) as one, auditing(config) as other:
            for url in (one, other):
                await until(partial(exposes, url, labelled("exports_total", outcome="done"), 1))
                await until(partial(exposes, url, labelled("export_rows_total", dataset="measurements"), 500))
    assert len({row["id"] for row in read(address, "measurements")}) == len(read(address, "measurements")) == 500
