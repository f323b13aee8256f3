"""An ASGI app between gateway and model: what the servers of tests that bend a model's replies have in common."""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn


class ModelFront(ABC):
    """Base of such apps: serves itself, and holds a client of the model."""

    _http: httpx.AsyncClient

    @asynccontextmanager
    async def in_front(self, model_url: str) -> AsyncIterator[str]:
        """Base URL of a server that stops with the block."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            config = uvicorn.Config(self, interface="asgi3", log_level="error", lifespan="off")
            server = uvicorn.Server(config)
            async with httpx.AsyncClient(base_url=model_url, trust_env=False, timeout=60) as self._http:
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                try:
                    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
                finally:
                    server.should_exit = True
                    await serving

    @abstractmethod
    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answers one request."""


async def whole_body(receive: Any) -> bytes:
    """A request's body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def send_json(send: Any, status: int, reply: bytes) -> None:
    """A whole response of JSON."""
    content_type = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": content_type})
    await send({"type": "http.response.body", "body": reply})
