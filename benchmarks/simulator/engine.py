"""One simulated model server without its HTTP: which profile holds now, who waits, what was drawn, what was counted."""

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from heapq import merge
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from typing import Any

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.answers import Answers
from benchmarks.simulator.counterfactual import TypedDecisions
from benchmarks.simulator.openai_requests import BadRequestError
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.replies import Draws, Replies, Vocabulary, digest, split
from benchmarks.simulator.text_request import Asked, Generated, Step, generate, shape, steps
from benchmarks.simulator.thinking import EMPTY, OPENING, opening_of, refusal, thought_about, written
from benchmarks.simulator.tool_calls import Offer


class PrioritySemaphore:
    def __init__(self, limit: int) -> None:
        self.free = limit
        self._arrivals = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def acquire(self, priority: int) -> None:
        if self.free > 0:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (priority, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was handed over in the same moment
            raise

    def release(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


FINISH_REASONS = ("stop", "length", "abort")


class EngineCounts:
    def __init__(self, models: list[str], max_running: int) -> None:
        self._models = models
        self._max_running = max_running
        self.running: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.prompt_tokens: Counter[str] = Counter()
        self.generation_tokens: Counter[str] = Counter()
        self.finished: Counter[tuple[str, str]] = Counter()

    def count_finished(self, model: str, reason: str) -> None:
        self.finished[model, reason] += 1

    def render(self) -> str:
        """Prometheus text format, version 0.0.4."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        cache_use = {model: self.running[model] / self._max_running for model in self._models}
        yield from self._family("num_requests_running", "gauge", "Requests being answered.", self.running)
        yield from self._family("num_requests_waiting", "gauge", "Requests waiting for a slot.", self.waiting)
        yield from self._family("kv_cache_usage_perc", "gauge", "Share of the slots in use; 1 is full.", cache_use)
        yield from self._family("prompt_tokens_total", "counter", "Prompt tokens read.", self.prompt_tokens)
        yield from self._family("generation_tokens_total", "counter", "Tokens generated.", self.generation_tokens)
        yield from _head("request_success_total", "counter", "Requests ended, by reason.")
        for model in self._models:
            for reason in FINISH_REASONS:
                labels = f'engine="0",finished_reason="{reason}",model_name="{_escaped(model)}"'
                yield f"vllm:request_success_total{{{labels}}} {float(self.finished[model, reason])}"

    def _family(self, name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
        yield from _head(name, kind, text)
        for model in self._models:
            yield f'vllm:{name}{{engine="0",model_name="{_escaped(model)}"}} {float(values.get(model, 0.0))}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP vllm:{name} {text}"
    yield f"# TYPE vllm:{name} {kind}"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


try:
    VERSION = version("biasgate")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0"

_KEPT_PLANS = 4096


class UnknownModelError(Exception):
    """A model that is not served here; its text is the name."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: n replies and the distribution that they were drawn from."""

    id: str
    asked: Asked
    replies: Replies
    generated: list[Generated]
    is_silent: bool = False
    """Planted never to be answered; the request ends when its client leaves."""

    @property
    def completion_tokens(self) -> int:
        return sum(len(reply.tokens) for reply in self.generated)

    def steps(self, index: int) -> list[Step]:
        return steps(self.replies, self.generated[index])


class Engine:
    """`key` knows the benchmark questions. `clock` gives seconds, and is read only for a drift planted at a time."""

    def __init__(
        self, profile: Profile, seed: int, key: AnswerKey, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.profile = profile
        self.seed = seed
        self.vocabulary = Vocabulary()
        self.slots = PrioritySemaphore(profile.latency.max_running)
        self.counts = EngineCounts(profile.models, profile.latency.max_running)
        self.fingerprint = f"biasgate-simulator-{VERSION}-{profile.name}"
        self.started_at = int(time.time())
        self.forced_drift: bool | None = None
        self._before = Answers(profile, seed, key)
        self._after = Answers(profile.drifted(), seed, key)
        self._plans: dict[tuple[str, bool], Replies] = {}
        self._draws = Draws(seed)
        self._requests = 0
        self._clock = clock
        self._start = clock()

    @property
    def drifted(self) -> bool:
        """Return whether the next request is answered by the profile after its planted change."""
        if self.forced_drift is not None:
            return self.forced_drift
        drift = self.profile.drift
        by_count = drift.at_request is not None and self._requests + 1 >= drift.at_request
        return by_count or (drift.at_seconds is not None and self._clock() - self._start >= drift.at_seconds)

    def served(self, name: str | None) -> str:
        """The model asked for, or the first one when none is named. Raises UnknownModelError."""
        if name is None:
            return self.profile.models[0]
        if name not in self.profile.models:
            raise UnknownModelError(name)
        return name

    def answer(self, request: Asked) -> Answer:
        drifted = self.drifted
        if not self._answers(drifted).calls(request):
            request = msgspec.structs.replace(request, offer=Offer())
        request = self._without_forced_thought(request)
        content = digest(request.content)
        replies = self._planned(request, content, drifted)
        thought = self.thought(request, content)
        replies = written(self.profile.thinking, thought, request.user, replies)
        self._requests += 1
        stream = self._draws.stream(content, request.seed)
        generated = [generate(replies, request, stream, index) for index in range(request.n)]
        is_silent = self._answers(drifted).is_silent(request)
        return Answer(id=digest(stream), asked=request, replies=replies, generated=generated, is_silent=is_silent)

    @property
    def typed_decisions(self) -> TypedDecisions:
        """Return the settings by which decisions are answered now."""
        return (self.profile.drifted() if self.drifted else self.profile).typed_decisions

    def stream(self, request: Asked) -> str:
        """Name of the draws of a request that writes no reply; counts it."""
        self._requests += 1
        return self._draws.stream(digest(request.content), None)

    def refuse(self, request: Asked) -> None:
        """Raises BadRequestError for what the server does not take about thinking."""
        model = self.profile.thinking
        if refused := refusal(model, request.told):
            raise BadRequestError(*refused)
        if model.forced == "refused" and request.prefix.startswith(OPENING.strip()):
            raise BadRequestError("continue_final_message is set but the final message does not appear in the chat.")

    def thought(self, request: Asked, content: str) -> int | None:
        """Return the tokens of a thought; None if its answer is begun, or held to a grammar without a parser."""
        model = self.profile.thinking
        is_held = request.choices is not None or request.schema is not None or request.offer.is_demanded
        if request.is_forced or (is_held and not model.has_parser):
            return None
        return thought_about(model, request.told, self.seed, content)

    def _without_forced_thought(self, request: Asked) -> Asked:
        """An empty thought that the client forces is the template's, not the answer's."""
        model = self.profile.thinking
        added = split(opening_of(model, self.thought(request, digest(request.content))))
        if model.switch == "none":
            return request
        if request.is_forced and request.prefix.startswith(EMPTY):
            return msgspec.structs.replace(request, prefix=request.prefix.removeprefix(EMPTY))
        is_kept = request.is_forced and model.switch != "template"  # a template without a switch adds none to an answer
        return (
            request if is_kept else msgspec.structs.replace(request, prompt_tokens=request.prompt_tokens + len(added))
        )

    def _answers(self, drifted: bool) -> Answers:
        return self._after if drifted else self._before

    def _planned(self, request: Asked, content: str, drifted: bool) -> Replies:
        """The distribution of a request; those of the last few thousand contents are kept."""
        distribution = self._plans.get((content, drifted))
        if distribution is None:
            answers = self._answers(drifted)
            distribution = self._plans[content, drifted] = shape(answers.replies(request), request)
            if len(self._plans) > _KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
        return distribution

    @property
    def immediate(self) -> bool:
        """Return whether a request is answered without a pause in which its client might leave."""
        latency = self.profile.latency
        if self._answers(self.drifted).can_be_silent:
            return False
        return self.slots.free > 0 and not latency.first_token_seconds and not latency.tokens_per_second

    @asynccontextmanager
    async def slot(self, request: Asked) -> AsyncIterator[None]:
        """Holds one of the running slots; counts the wait, and an abort when the request does not finish."""
        waiting, running = self.counts.waiting, self.counts.running
        waiting[request.model] += 1
        try:
            await self.slots.acquire(request.priority)
        finally:
            waiting[request.model] -= 1
        running[request.model] += 1
        try:
            yield
        except BaseException:
            self.counts.count_finished(request.model, "abort")
            raise
        finally:
            running[request.model] -= 1
            self.slots.release()

    def count(self, answer: Answer) -> None:
        """A request that was answered in full."""
        model = answer.asked.model
        self.counts.prompt_tokens[model] += answer.asked.prompt_tokens
        self.counts.generation_tokens[model] += answer.completion_tokens
        for reply in answer.generated:
            self.counts.count_finished(model, reply.finish_reason)

    async def wait(self, answer: Answer) -> None:
        """Waits as long as a reply in one piece takes: all tokens of the longest reply."""
        if answer.is_silent:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        latency = self.profile.latency
        longest = max(len(reply.tokens) for reply in answer.generated)
        seconds = latency.first_token_seconds
        if latency.tokens_per_second:
            seconds += (longest - 1) / latency.tokens_per_second
        if seconds:
            await asyncio.sleep(seconds)

    async def paced(self, choices: Sequence[Iterator[tuple[int, Any]]]) -> AsyncIterator[Any]:
        """The chunks of all replies, token by token, at the planted speed."""
        latency = self.profile.latency
        if latency.first_token_seconds:
            await asyncio.sleep(latency.first_token_seconds)
        done = 1
        for number, chunk in merge(*choices, key=itemgetter(0)):
            if number > done and latency.tokens_per_second:
                await asyncio.sleep(1.0 / latency.tokens_per_second)
            done = number
            yield chunk
