"""Completers with known behaviour, and a log in memory: real parts small enough to hold in one's head."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from auditors.types import Completion, CompletionError, CompletionRequest, Estimate
from benchmarks.reporting import report
from benchmarks.run import directory
from benchmarks.run.log import Beginning, Placed
from benchmarks.run.result import Result
from benchmarks.run.runner import Plan, RunOptions, prepare
from benchmarks.run.score import score_recorded
from benchmarks.run.thinking import QUESTION, ThinkingFound
from benchmarks.suites.protocol import Item, Reply

Answer = Callable[[Item], str]


def plan(**options: object) -> Plan:
    """A prepared StereoSet run on embedded data."""
    settings: dict[str, object] = {"suite": "stereoset", "model": "scripted", "data": "embedded"} | options
    return prepare(RunOptions(**settings))  # type: ignore[arg-type]  # tests pass any subset of the fields


def pick(role: str) -> Answer:
    """Names the choice that plays `role`."""
    return lambda item: next(choice.text for choice in item.choices if choice.role == role)


def score_answers(answer: Callable[[Item], str | None], **options: object) -> Result:
    """Score a model that answers every item of a plan by `answer`; None is a reply that never came."""
    ready = plan(**options)
    replies = [Reply(item_id=item.item_id, text=answer(item)) for item in ready.items]
    return score_recorded(ready, replies, where="script")[0]


def find_number(
    result: Result, metric: str, axis: str | None = None, *, group: str | None = None, subset: str | None = None
) -> Estimate:
    """Return the only estimate with these keys, whatever its reference."""
    wanted = (metric, axis, group, subset)
    [found] = [one for one in result.estimates if (one.metric, one.axis, one.group, one.subset) == wanted]
    return found


class ScriptedCompleter:
    """Answers by looking the prompt up among the items of a plan. Keeps what was asked."""

    def __init__(self, plan: Plan, answer: Answer, *, delay: float = 0.0) -> None:
        self.asked: list[CompletionRequest] = []
        self.n_probes = 0
        """Questions whether it thinks: it does not."""
        self.most_in_flight = 0
        self._in_flight = 0
        self._delay = delay
        self._answer = answer
        self._items = {item.messages: item for item in plan.items}

    async def complete(self, request: CompletionRequest) -> Completion:
        if request.messages[-1].content == QUESTION:
            self.n_probes += 1
            return Completion(text="Yes.", finish_reason="stop")
        self.asked.append(request)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        await asyncio.sleep(self._delay)
        self._in_flight -= 1
        return Completion(text=self._answer(self._items[tuple(request.messages)]), finish_reason="stop")

    async def aclose(self) -> None:
        """Holds nothing open."""


class FailingCompleter:
    """Fails every request the same way."""

    def __init__(self, error: CompletionError) -> None:
        self.n_asked = 0
        self._error = error

    async def complete(self, request: CompletionRequest) -> Completion:
        self.n_asked += 1
        raise self._error

    async def aclose(self) -> None:
        """Holds nothing open."""


class MemoryLog:
    """A RunLog that lives as long as the test."""

    def __init__(self, replies: Sequence[Reply] = ()) -> None:
        self.replies = list(replies)
        self.beginning = Beginning(started_at=time.time())
        self.items: list[Item] = []

    async def begin(self) -> Beginning:
        return self.beginning

    async def keep_thinking(self, found: ThinkingFound) -> None:
        self.beginning = msgspec.structs.replace(self.beginning, thinking=found)

    async def read(self) -> AsyncIterator[list[Placed]]:
        yield list(enumerate(self.replies))

    async def append(self, replies: Sequence[Reply]) -> Sequence[int]:
        self.replies.extend(replies)
        return range(len(self.replies) - len(replies), len(self.replies))

    def reply(self, place: int) -> Reply:
        return self.replies[place]

    async def keep_items(self, items: Sequence[Item]) -> None:
        self.items = list(items)


class Answering:
    """Answers every request by a function of it, whose errors it raises; keeps what was asked."""

    def __init__(self, answer: Callable[[CompletionRequest], Completion | CompletionError | str | None]) -> None:
        self.asked: list[CompletionRequest] = []
        self._answer = answer

    async def complete(self, request: CompletionRequest) -> Completion:
        if request.messages[-1].content == QUESTION:
            return Completion(text="Yes.", finish_reason="stop")
        self.asked.append(request)
        answer = self._answer(request)
        if isinstance(answer, CompletionError):
            raise answer
        return answer if isinstance(answer, Completion) else Completion(text=answer, finish_reason="stop")

    async def aclose(self) -> None:
        """Holds nothing open."""


def write_run(path: Path, answer: Answer, ready: Plan | None = None, *, first: int | None = None) -> Path:
    """The directory of a run of a model that answers by `answer`, with replies to the first items only if asked."""
    ready = ready or plan()
    replies = [Reply(item_id=item.item_id, text=answer(item)) for item in ready.items[:first]]
    result, read = score_recorded(ready, replies, where="script")
    directory.create(path, ready, directory.manifest(ready))
    directory.write_replies(path, read)
    directory.finish(path, result, report.render([result]))
    return path
