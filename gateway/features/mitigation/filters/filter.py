"""A policy's filter: its plan, its detector (a judge, or a classifier over an embedding), and its findings in texts.
A reply that cannot be read is a failure. After FAILURES_TO_OPEN failures in a row a detector is left alone for a pause
that doubles, and then asked once.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import Literal, Protocol

import msgspec

from auditors.clients.completion import EmbeddingClient, HttpCompleter, Sign
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.text.bias_question import VERDICT_TOKENS, question, verdict
from auditors.text.lenient_json import well_formed_text
from auditors.text.thinking import OFF
from auditors.types import CompletionError, CompletionRequest, FailureKind
from gateway.config.schema import Config
from gateway.features.mitigation.config import MitigationConfig, QueryFilterConfig
from gateway.features.mitigation.filter_plan import FilterPlan, Head

HALF = 8_000
"""Characters of the beginning, and again of the end. Text between them is not looked at."""
_GAP = "\n[...]\n"


class Excerpt:
    """A text that grows, of which no more is kept than is shown."""

    def __init__(self) -> None:
        self._beginning = ""
        self._end = ""
        self._length = 0

    def add(self, piece: str) -> None:
        room = HALF - len(self._beginning)
        if room > 0:
            self._beginning += piece[:room]
        rest = piece[max(room, 0) :]
        if rest:
            self._end = (self._end + rest[-HALF:])[-HALF:]
        self._length += len(piece)

    @property
    def is_whole(self) -> bool:
        """Nothing is left out."""
        return self._length <= 2 * HALF

    @property
    def text(self) -> str:
        return self._beginning + ("" if self.is_whole else _GAP) + self._end


logger = logging.getLogger(__name__)

MOST_AT_ONCE = 64
"""Requests from a worker to a detector; more wait, within their time limit."""
FAILURES_TO_OPEN = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0

_SERVERS_FAULT: frozenset[FailureKind] = frozenset({"timeout", "unavailable"})
"""Failures that no text can cause: a sender who makes a judge babble does not switch it off for others."""


class DetectorError(Exception):
    """No verdict. `timed_out`: the time limit passed."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Detector(Protocol):
    """Asks one model."""

    async def is_biased(self, text: str) -> bool:
        """Raises CompletionError."""
        ...

    async def aclose(self) -> None: ...


class JudgeDetector:
    """A chat model that says yes or no."""

    def __init__(
        self, base_url: str, api_key: str | None, model: str, prompt: str, *, timeout: float, sign: Sign
    ) -> None:
        """Opens no connection yet; see HttpEndpoint for the arguments."""
        server = HttpCompleter(base_url, api_key, timeout=timeout, retries=0, max_concurrency=MOST_AT_ONCE, sign=sign)
        self._completer = ThinkingCompleter(server, OFF)
        self._model = model
        self._criterion = prompt

    async def is_biased(self, text: str) -> bool:
        request = CompletionRequest(
            model=self._model, messages=question(self._criterion, text), max_tokens=VERDICT_TOKENS, temperature=0.0
        )
        answer = verdict((await self._completer.complete(request)).text or "")
        if answer is None:
            raise CompletionError("malformed", "the judge's reply is neither yes nor no")
        return answer

    async def aclose(self) -> None:
        await self._completer.aclose()


class ClassifierDetector:
    """A served embedding model, and a head that weighs the embedding."""

    def __init__(
        self, base_url: str, api_key: str | None, head: Head, threshold: float, *, timeout: float, sign: Sign
    ) -> None:
        """Opens no connection yet; see HttpEndpoint for the arguments."""
        self._client = EmbeddingClient(
            base_url, api_key, timeout=timeout, retries=0, max_concurrency=MOST_AT_ONCE, sign=sign
        )
        self._head = head
        self._threshold = threshold

    async def is_biased(self, text: str) -> bool:
        (embedding,) = await self._client.embed(self._head.embedder, [well_formed_text(text)])
        try:
            return self._head.probability(embedding) >= self._threshold
        except ValueError as exc:
            raise CompletionError("malformed", str(exc)) from exc

    async def aclose(self) -> None:
        await self._client.aclose()


class BoundedDetector:
    """A detector with a time limit, which nothing waits for while it is sick."""

    def __init__(self, inner: Detector, name: str, *, seconds: float) -> None:
        self._inner = inner
        self._name = name
        self._seconds = seconds
        self._failures = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._open_until = 0.0
        self._is_tried = False
        """The circuit is open and somebody finds out whether the detector is well again."""

    async def is_biased(self, text: str) -> bool:
        """Raises DetectorError."""
        is_trial = self._enter()
        try:
            async with asyncio.timeout(self._seconds):
                verdict = await self._inner.is_biased(text)
        except TimeoutError as exc:
            self._failed(f"no reply within {self._seconds:g} s", is_trial=is_trial)
            raise DetectorError(f"no verdict within {self._seconds:g} s", timed_out=True) from exc
        except CompletionError as exc:
            if exc.kind in _SERVERS_FAULT:
                self._failed(str(exc), is_trial=is_trial)
            else:
                self._answered()
            raise DetectorError(str(exc), timed_out=exc.kind == "timeout") from exc
        finally:
            if is_trial:
                self._is_tried = False
        self._answered()
        return verdict

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _enter(self) -> bool:
        """Return whether this request tries a sick detector. Raises DetectorError for every other while it is sick."""
        if self._failures < FAILURES_TO_OPEN:
            return False
        if self._is_tried or perf_counter() < self._open_until:
            raise DetectorError("its server is sick, and nothing is sent there for a moment")
        self._is_tried = True
        return True

    def _failed(self, why: str, *, is_trial: bool) -> None:
        self._failures += 1
        if self._failures == FAILURES_TO_OPEN:
            logger.warning("%s: %d failures in a row, not asked for a while: %s", self._name, self._failures, why)
        elif not is_trial:
            return  # too few, or of requests that were on their way when it was found sick
        self._open_until = perf_counter() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _answered(self) -> None:
        if self._failures >= FAILURES_TO_OPEN:
            logger.warning("%s: answers again", self._name)
        self._failures, self._pause = 0, FIRST_PAUSE_SECONDS


Finding = Literal["clean", "biased", "timed_out", "failed", "unsupported"]
"""Finding of a filter. unsupported: the texts have nothing that the filter could look at, or more than it looks at."""


class HeldBytes:
    """Bytes of answers that one worker holds back, all together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class Filter:
    """Shared by all requests of a policy; holds no state of any of them."""

    def __init__(self, plan: FilterPlan, detector: BoundedDetector) -> None:
        self.plan = plan
        self._detector = detector

    async def look(self, texts: Sequence[Excerpt], *, demands_all: bool) -> Finding:
        """Return whether any non-blank text is biased; never raises. `demands_all`: too long a text is unsupported."""
        if demands_all and not all(text.is_whole for text in texts):
            return "unsupported"
        looks = (self._detector.is_biased(text.text) for text in texts if text.text.strip())
        outcomes = await asyncio.gather(*looks, return_exceptions=True)
        if any(outcome is True for outcome in outcomes):
            return "biased"
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if not failures:
            return "clean"
        for failure in failures:
            if not isinstance(failure, DetectorError):
                logger.error("%s: a detector failed", self.plan.name, exc_info=failure)
        is_late = any(isinstance(failure, DetectorError) and failure.timed_out for failure in failures)
        return "timed_out" if is_late else "failed"

    async def aclose(self) -> None:
        await self._detector.aclose()


class PolicyFilters(msgspec.Struct, frozen=True):
    """The filters of a policy."""

    query: Filter | None
    response: Filter | None

    async def aclose(self) -> None:
        for filter_ in (self.query, self.response):
            if filter_ is not None:
                await filter_.aclose()


def filter_of(
    config: Config, policy: MitigationConfig, plan: FilterPlan | None, settings: QueryFilterConfig | None, sign: Sign
) -> Filter | None:
    """Opens no connection. Raises ConfigError for an environment variable that is not set."""
    if plan is None or settings is None:
        return None
    key, seconds = config.secret(settings.api_key_env), policy.timeout_seconds
    detector: Detector
    if plan.head is not None and plan.threshold is not None:
        detector = ClassifierDetector(settings.base_url, key, plan.head, plan.threshold, timeout=seconds, sign=sign)
    else:
        detector = JudgeDetector(settings.base_url, key, plan.model, plan.prompt or "", timeout=seconds, sign=sign)
    name = f'{plan.name} of mitigation "{policy.name or ""}"'
    return Filter(plan, BoundedDetector(detector, name, seconds=seconds))
