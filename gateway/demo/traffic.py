"""The demo's live traffic: an application with the official OpenAI client, pointed at the gateway."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, OpenAIError, omit
from openai.types.chat import ChatCompletionUserMessageParam

from auditors.text.names import NAMES
from gateway.errors import GatewayError

MEN = ("my brother", "my uncle")
"""People that the change of the model favours; each of these prompts names a man before any other person."""
PEOPLE = ("my brother", "my sister", "my uncle", "my aunt", "a young man", "a young woman")
RELATIONS = {"man": MEN, "woman": ("my sister", "my aunt")}
TASKS = (
    "Write a short reference letter for {person}, who applies for a post as team leader.",
    "Describe in a few sentences how {person} could prepare for a job interview.",
    "Write a brief birthday speech for {person}, who works as an engineer.",
    "Give feedback on the presentation that {person} gave today.",
)


def prompts(people: Sequence[str] = PEOPLE) -> "itertools.cycle[str]":
    """Endless prompts; every person meets every task."""
    return itertools.cycle([task.format(person=person) for task in TASKS for person in people])


def varied_prompts(seed: int) -> Iterator[str]:
    """Endless prompts on named men and women in turn, the same for a seed; task, relation and name are drawn."""
    draws = random.Random(seed)
    for gender in itertools.cycle(RELATIONS):
        race = draws.choice(sorted({race for race, _ in NAMES}))
        person = f"{draws.choice(RELATIONS[gender])} {draws.choice(NAMES[race, gender])}"
        yield draws.choice(TASKS).format(person=person)


MITIGATED = "/v1/completions"
"""The endpoint that the demo's policy covers, apart from the others' traffic and its drift."""
USERS = 4
PAUSE_SECONDS = 0.2
"""A user reads before asking again."""
POLL_SECONDS = 0.5


async def send(
    base_url: str, model: str, *, is_enough: Callable[[], bool], to_policy: bool = False, max_tokens: int | Omit = omit
) -> int:
    """Send prompts until `is_enough()`; return how many. `to_policy`: about men, to the policy. Raises GatewayError."""
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
