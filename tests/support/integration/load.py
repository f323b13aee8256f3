"""Steady traffic on kept connections, and what became of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.support.waiting import eventually

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETIONS = "/v1/chat/completions"


@dataclass
class Load:
    """Answers so far, by the name of the upstream that gave them, and what went wrong."""

    upstreams: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    stopping: bool = False

    @property
    def answered(self) -> int:
        return self.upstreams.total()

    async def more(self, count: int) -> None:
        """Waits for so many further answers."""
        goal = self.answered + count
        await eventually(lambda: self.answered >= goal, within_seconds=40)

    async def ask(self, root: str) -> None:
        async with httpx.AsyncClient(base_url=root, verify=False, trust_env=False, timeout=30) as http:
            while not self.stopping:
                try:
                    answer = await http.post(COMPLETIONS, json=CHAT)
                except httpx.HTTPError as exc:
                    self.failures.append(repr(exc))
                    return
                if answer.status_code == 200:
                    self.upstreams[answer.headers["x-biasgate-upstream"]] += 1
                else:
                    self.failures.append(f"{answer.status_code} {answer.text}")


@asynccontextmanager
async def steady_load(root: str, *, connections: int = 8) -> AsyncIterator[Load]:
    """Every connection asks again as soon as it has its answer, until the block ends."""
    load = Load()
    asking = [asyncio.create_task(load.ask(root)) for _ in range(connections)]
    try:
        yield load
    finally:
        load.stopping = True
        await asyncio.gather(*asking)
