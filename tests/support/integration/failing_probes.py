"""A server between gateway and model that fails auditors' questions with certain words, and relays everything else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import msgspec
import uvicorn

from auditors.clients.completion import UNSAMPLED

Fault = Literal["answers 500", "answers nonsense", "hangs"]


class FailingProbes:
    """An ASGI app. While `fault` is set it meets the model's questions by auditors that hold `words`."""

    def __init__(self, words: str, *, model: str) -> None:
        self.fault: Fault | None = None
        self.met = 0
        """Questions that were failed."""
        self._words = words
        self._model = model
        self._model_url = ""
        self._http: httpx.AsyncClient

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

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, reply = 200, b'{"choices": 7}'
        if self.fault is None or not self._is_met(dict(scope["headers"]), body):
            answer = await self._http.request(scope["method"], scope["path"], content=body)
            status, reply = answer.status_code, answer.content
        elif self.fault == "hangs":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        elif self.fault == "answers 500":
            status = 500
        content_type = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": content_type})
        await send({"type": "http.response.body", "body": reply})

    def _is_met(self, headers: dict[bytes, bytes], body: bytes) -> bool:
        marked = all(headers.get(name.encode()) == value.encode() for name, value in UNSAMPLED.items())
        if not marked or self._words.encode() not in body:
            return False
        is_met: bool = msgspec.json.decode(body)["model"] == self._model
        self.met += is_met
        return is_met
