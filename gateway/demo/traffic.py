"""The demo's live traffic: an application with the official OpenAI client, pointed at the gateway."""

import asyncio
from collections.abc import Callable

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, OpenAIError, omit
from openai.types.chat import ChatCompletionUserMessageParam

from gateway.demo.prompts import MEN, PEOPLE, prompts
from gateway.errors import GatewayError

MITIGATED = "/v1/completions"
"""The endpoint that the demo's policy covers, apart from the others' traffic and its drift."""
USERS = 4
PAUSE_SECONDS = 0.2
"""A user reads before asking again."""
POLL_SECONDS = 0.5


async def send(
    base_url: str, model: str, *, is_enough: Callable[[], bool], to_policy: bool = False, max_tokens: int | Omit = omit
) -> int:
    """Sends prompts, every other one streamed, until `is_enough()`; returns how many were answered. `to_policy` sends
    prompts about men to the endpoint that the demo's policy covers, none of them streamed. Raises GatewayError when a
    request fails.
    """
    source, answered, over = prompts(MEN if to_policy else PEOPLE), 0, asyncio.Event()
    http = DefaultAsyncHttpxClient(follow_redirects=False)
    async with AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none-needed", max_retries=0, http_client=http) as client:

        async def user() -> None:
            nonlocal answered
            while not over.is_set():
                if to_policy:
                    await client.completions.create(model=model, prompt=next(source))
                else:
                    await _ask(client, model, next(source), streamed=answered % 2 == 1, max_tokens=max_tokens)
                answered += 1
                await asyncio.sleep(PAUSE_SECONDS)

        async def watcher() -> None:
            while not over.is_set():
                if await asyncio.to_thread(is_enough):
                    over.set()
                await asyncio.wait([asyncio.create_task(over.wait())], timeout=POLL_SECONDS)

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watcher())
                for _ in range(USERS):
                    tasks.create_task(user())
        except* OpenAIError as group:
            raise GatewayError(f"a request of the demo failed: {group.exceptions[0]}") from group
    return answered


async def _ask(client: AsyncOpenAI, model: str, prompt: str, *, streamed: bool, max_tokens: int | Omit) -> None:
    message: ChatCompletionUserMessageParam = {"role": "user", "content": prompt}
    if not streamed:
        await client.chat.completions.create(model=model, messages=[message], max_tokens=max_tokens)
        return
    stream = await client.chat.completions.create(model=model, messages=[message], max_tokens=max_tokens, stream=True)
    async for _ in stream:
        pass
