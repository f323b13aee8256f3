"""Known good exchanges: every auditor that asks a server asks it about one of them, whatever models there are."""

from typing import Any

import msgspec
import numpy as np
import pytest

from auditors import registry
from auditors.types import Completion, CompletionRequest, DecisionRequest, Servers
from gateway.auditor import known_good
from gateway.config.loading import validate
from tests.support.auditors.scripted import Asked, Reply, scripted_server


class Server:
    """Counts what it is asked, and answers something."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.name = "e"

    async def complete(self, request: CompletionRequest) -> Completion:
        self.n_asked += 1
        return Completion(text='{"refused": false, "findings": []}', finish_reason="stop")

    async def decide(self, request: DecisionRequest) -> bytes:
        self.n_asked += 1
        return b"{}"

    async def embed(self, texts: Any) -> Any:
        return np.ones((len(texts), 2), dtype=np.float32) / 2**0.5

    async def aclose(self) -> None:
        """Holds nothing open."""


class Settings:
    model, max_tokens, max_concurrency, thinking = "j", 64, 4, None


@pytest.mark.parametrize("name", [name for name, kind in registry.AUDITORS.items() if kind.asks_upstream != "never"])
async def test_every_auditor_asks_its_server(name: str) -> None:
    """Otherwise its circuit could not be decided by a known good exchange."""
    server = Server()
    servers = Servers(completer_for=lambda _: server, embedder=server, decider_for=lambda _: server)
    auditor = registry.build(name, Settings(), servers)
    for exchange in known_good.build_exchanges("u", "m"):
        await auditor.audit(exchange)

    assert server.n_asked


@pytest.mark.parametrize(
    ("listed", "models", "model", "chosen"),
    [
        (["a", "b"], ["*"], "b", "b"),
        (["a", "b"], ["*"], "unknown", "a"),
        (["a", "b"], ["b"], "unknown", "b"),
        ([], ["b"], None, "b"),
        (None, ["*"], "unknown", "unknown"),
    ],
)
async def test_model_is_one_that_the_upstream_serves(
    listed: list[str] | None, models: list[str], model: str | None, chosen: str
) -> None:
    """Whatever model a client's exchange named: its status 404 says nothing of the upstream."""

    def script(asked: Asked) -> Reply:
        entries = [{"id": name} for name in listed or ()]
        return Reply(b"{}", 404) if listed is None else Reply(msgspec.json.encode({"data": entries}))

    async with scripted_server(script) as server:
        upstream = {"name": "u", "base_url": server.base_url, "models": models}
        config = validate({"upstreams": [{"name": "first", "base_url": "http://127.0.0.1:9"}, upstream]})
        assert await known_good.choose_upstream(config, "u", model) == ("u", chosen)
