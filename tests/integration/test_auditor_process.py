"""When an auditor is ready."""

import contextlib
import json
import threading
import urllib.error
from pathlib import Path

import pytest

from benchmarks.suites import registry
from gateway.store import catalogue
from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, fetch, until


@pytest.mark.stores("sqlite")
async def test_it_is_ready_once_the_gateway_can_read_its_suites(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that no audit can be asked for, which takes as long as the data sets are large."""
    may_look = threading.Event()
    found = registry.catalogue

    def catalogue_in_time(data_dir: Path | None) -> list[registry.SuiteInfo]:
        may_look.wait()
        return found(data_dir)

    monkeypatch.setattr(registry, "catalogue", catalogue_in_time)
    async with auditing(config_for(database.url, "http://127.0.0.1:9")) as url:
        try:
            with pytest.raises(urllib.error.HTTPError) as refused:
                await fetch(f"{url}/readyz")
            assert json.load(refused.value)["checks"] == {"store": "ok", "suites": "not reported to the gateways yet"}
        finally:
            may_look.set()

        async def is_ready() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                return "ready" in await fetch(f"{url}/readyz")
            return False

        await until(is_ready)
        assert "stereoset" in [suite["name"] for suite in await catalogue.read(database)]
