"""Clients that hold many streams open, and what became of each stream."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread

import httpx

QUESTION = "Tell me a long story about a nurse and an engineer."


@dataclass
class Crowd:
    """Counts of streams; each client starts its next stream, on a new connection, when one has ended."""

    address: str
    key: str
    clients: int
    open: int = 0
    """Streams of which at least one event was read and which have not ended."""
    whole: int = 0
    cut: list[str] = field(default_factory=list)
    """Streams that ended early, with an error, or that were refused."""
    is_stopping: bool = False

    async def run(self) -> None:
        await asyncio.gather(*(self._ask() for _ in range(self.clients)))

    async def _ask(self) -> None:
        while not self.is_stopping:
            # Their audits would keep the auditor busy for minutes after the load has ended.
            headers = {"authorization": f"Bearer {self.key}", "x-biasgate-audit": "off"}
            async with httpx.AsyncClient(base_url=self.address, headers=headers, trust_env=False, timeout=90) as http:
                try:
                    await self._stream(http)
                except httpx.HTTPError as exc:
                    self.cut.append(repr(exc))
                    await asyncio.sleep(0.2)

    async def _stream(self, http: httpx.AsyncClient) -> None:
        question = {"model": "simulated", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
        async with http.stream("POST", "/v1/chat/completions", json=question) as reply:
            chunks, text = reply.aiter_raw(), b""
            try:
                async for chunk in chunks:
                    if not text:
                        self.open += 1
                    text += chunk
            finally:
                if text:
                    self.open -= 1
        if reply.status_code == 200 and text.endswith(b"data: [DONE]\n\n") and b'"error"' not in text:
            self.whole += 1
        else:
            self.cut.append(f"{reply.status_code} ...{text[-160:]!r}")
            await asyncio.sleep(0.2)


@contextmanager
def crowd(address: str, key: str, *, clients: int) -> Iterator[Crowd]:
    """Keep `clients` streams open until the block ends; then read every open stream to its end."""
    streams = Crowd(address, key, clients)
    thread = Thread(target=lambda: asyncio.run(streams.run()), daemon=True)
    thread.start()
    try:
        yield streams
    finally:
        streams.is_stopping = True
        thread.join(120)
