"""The auditor's own HTTP server: who may scrape it, and what every reply says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from auditors.streams.drift import DriftSettings
from gateway.auditor.endpoint import Endpoint, listen
from gateway.auditor.metrics import AuditorMetrics
from gateway.config.loading import validate
from gateway.control_keys import ControlKeys
from gateway.telemetry.exposition import Exposition

SERVER = {"protect_metrics": True, "control_keys": [{"name": "prometheus", "key_env": "SCRAPE_KEY"}]}


@asynccontextmanager
async def endpoint(keys: ControlKeys | None) -> AsyncIterator[httpx.AsyncClient]:
    async def probe() -> dict[str, str]:
        return {"store": "ok"}

    server = Endpoint(Exposition(AuditorMetrics(DriftSettings())), probe, keys)
    listener = listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    root = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=30) as http:
            yield http
    finally:
        server.should_exit = True
        await serving
        listener.close()


async def test_metrics_behind_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer's key opens /metrics, no or a wrong one does not; probes stay open to balancers."""
    monkeypatch.setenv("SCRAPE_KEY", "scrape-secret")
    async with endpoint(ControlKeys(validate({"server": SERVER}))) as http:
        answers = [
            await http.get("/metrics", headers={"authorization": value} if value else {})
            for value in ("", "Bearer no", "Basic scrape-secret", "Bearer scrape-secret")
        ]
        open_ = [(await http.get(path)).status_code for path in ("/livez", "/readyz")]

    assert [answer.status_code for answer in answers] == [401, 401, 401, 200]
    assert answers[0].headers["www-authenticate"] == 'Bearer realm="biasgate"'
    assert open_ == [200, 200]


async def test_open_by_default_and_never_sniffed() -> None:
    """Without keys a scrape needs none; each reply has one nosniff."""
    async with endpoint(None) as http:
        answers = [await http.get(path) for path in ("/metrics", "/livez", "/readyz", "/nowhere")]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 404]
    assert [answer.headers.get_list("x-content-type-options") for answer in answers] == [["nosniff"]] * 4
