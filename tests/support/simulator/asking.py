"""Short ways to ask an engine without HTTP."""

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import known_items, parse
from benchmarks.simulator.openai_requests import ChatRequest
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.protocol import Item


def engine(seed: int = 0, **planted: object) -> Engine:
    """An engine with the embedded answer key and a profile of the given sections only."""
    return Engine(parse({"name": "test", **planted}), seed, AnswerKey(known_items(None)))


def asking(prompt: str, **fields: object) -> Asked:
    """The prompt as a chat request with further fields, as they would stand in its JSON."""
    return _asked([{"role": "user", "content": prompt}], fields)


def asking_item(item: Item, **fields: object) -> Asked:
    """A benchmark item as its suite sends it."""
    return _asked([{"role": message.role, "content": message.content} for message in item.messages], fields)


def texts(answering: Engine, asked: Asked, times: int) -> list[str]:
    """Replies to the same request again and again."""
    return [answering.answer(asked).generated[0].text for _ in range(times)]


def _asked(messages: list[dict[str, str]], fields: dict[str, object]) -> Asked:
    return msgspec.convert({"messages": messages, **fields}, ChatRequest).to_asked("simulated")
