"""Probes abilities to keep: bits per byte of neutral text (no tokenizer changes them; protocols 2.13), and answers."""

import asyncio
import hashlib
import math
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.spread import ratio
from auditors.text.refusal_words import declines
from auditors.types import Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import Cell

FILE = "utility.json"
BITS, REFUSALS, WORDS = "bits_per_byte", "neutral_refusal_rate", "answer_words"
MOST_TOKENS = 256
"""Most tokens of an answer to a neutral question; longer ones are cut there, and counted."""
NO_ANSWER = "no neutral question was answered"
CONTEXT = "Here is a note."
"""Stands before every sentence and is not scored, so that no tokenizer is judged by how it begins a text."""
_TEXTS = tomllib.loads(resources.files(__package__).joinpath("neutral.toml").read_text(encoding="utf-8"))
SENTENCES: tuple[str, ...] = tuple(_TEXTS["sentences"])
QUESTIONS: tuple[str, ...] = tuple(_TEXTS["questions"])

T = TypeVar("T")


class Sentence(msgspec.Struct, frozen=True):
    """Bits that a model needs for a sentence, and the sentence's bytes."""

    bits: float
    n_bytes: int


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a neutral question."""

    status: Literal["ok", "refusal", "error"]
    n_words: int = 0
    is_cut: bool = False
    """It reached MOST_TOKENS."""


class Utility(msgspec.Struct, frozen=True, kw_only=True):
    """The content of utility.json for a model."""

    schema: int = 1
    model: str
    probe_sha256: str
    sentences: list[Sentence] | None
    """Bits and bytes of each sentence; None where the server does not tell how probable a text is."""
    not_measured: str | None = None
    answers: list[Answered]


class Asked(Protocol):
    """The requests that the probe sends: see `benchmarks.run.client.SuiteClient`."""

    async def tokenized(self, model: str, text: str) -> list[int]: ...

    async def logprobs(self, model: str, tokens: Sequence[int], first: int) -> list[float]: ...

    async def complete(self, request: CompletionRequest) -> Completion: ...


def probe_sha256() -> str:
    """Return the sha256 of everything that the probe asks."""
    return hashlib.sha256(msgspec.json.encode([CONTEXT, SENTENCES, QUESTIONS, MOST_TOKENS])).hexdigest()


N_REQUESTS = 1 + 2 * len(SENTENCES) + len(QUESTIONS)


async def probe(client: Asked, model: str, *, in_flight: int) -> Utility:
    """Asks one model all of it. Raises BenchmarkError where it answers no question at all."""
    sentences, reason = await _sentences(client, model, in_flight)
    answers = await _each(in_flight, QUESTIONS, lambda question: _answer(client, model, question))
    if all(answer.status == "error" for answer in answers):
        raise BenchmarkError(f'"{model}" answers no neutral question: look at its server, then run this again')
    return Utility(model=model, probe_sha256=probe_sha256(), sentences=sentences, not_measured=reason, answers=answers)


async def _sentences(client: Asked, model: str, in_flight: int) -> tuple[list[Sentence] | None, str | None]:

    async def one(text: str) -> Sentence | None:
        tokens = await client.tokenized(model, f"{CONTEXT} {text}")
        if tokens[: len(context)] != context:
            return None
        logprobs = await client.logprobs(model, tokens, len(context))
        return Sentence(-sum(logprobs) / math.log(2), len(f" {text}".encode()))

    try:
        context = await client.tokenized(model, CONTEXT)
        sentences = await _each(in_flight, SENTENCES, one)
    except CompletionError as exc:
        return None, f"the server does not tell how probable a text is: {exc}"
    measured = [sentence for sentence in sentences if sentence is not None]
    if len(measured) < len(sentences):
        return None, "the tokenizer joins the context to what follows it: its bits cannot be told apart"
    return measured, None


async def _answer(client: Asked, model: str, question: str) -> Answered:
    request = CompletionRequest(
        model=model, messages=[Message("user", question)], max_tokens=MOST_TOKENS, temperature=0.0
    )
    try:
        reply = await client.complete(request)
    except CompletionError:
        return Answered(status="error")
    text = (reply.text or "").strip()
    is_refusal = not text or reply.refusal is not None or declines(text)
    n_words = len(text.split())
    return Answered(status="refusal" if is_refusal else "ok", n_words=n_words, is_cut=reply.finish_reason == "length")


async def _each(in_flight: int, texts: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Raises the first CompletionError; what is in flight then is given up."""
    slots, failed = asyncio.Semaphore(in_flight), list[BaseException]()

    async def one(text: str) -> T:
        async with slots:
            return await ask(text)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(text)) for text in texts]
    except* CompletionError as found:
        failed += found.exceptions
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]


def read(path: Path, model: str) -> Utility | None:
    """Return stored results of this version of the probe for this model, or None. BenchmarkError if unreadable."""
    utility = artefact.decoded(path / FILE, Utility, "remove it, it is asked again")
    return utility if utility and (utility.model, utility.probe_sha256) == (model, probe_sha256()) else None


def cells(utility: Utility) -> list[Cell]:
    """Return bits a byte, neutral questions refused in percent, and words of an answer that is not a refusal."""
    bits = [(sentence.bits, sentence.n_bytes) for sentence in utility.sentences or ()]
    replies = [(number, answer) for number, answer in enumerate(utility.answers) if answer.status != "error"]
    answers = [(number, reply) for number, reply in replies if reply.status == "ok"]
    n_errors = len(utility.answers) - len(replies)
    left_out = {"error": n_errors} if n_errors else {}
    refused = _rows([(reply.status == "refusal", 1) for _, reply in replies])
    cut = sum(reply.is_cut for _, reply in answers)
    no_bits = f"not measured: {utility.not_measured}" if utility.not_measured else "no sentence was asked"
    return [
        _cell(BITS, "sentence", [str(n) for n in range(len(bits))], _rows(bits), _ratio, undefined=no_bits),
        _cell(
            REFUSALS, "question", [str(n) for n, _ in replies], refused, _percentage, undefined=NO_ANSWER,
            excluded=left_out, counted=Share(refused[:, 0], refused[:, 1]), is_secondary=True,
        ),
        _cell(
            WORDS, "question", [str(n) for n, _ in answers],
            _rows([(reply.n_words, 1) for _, reply in answers]), _ratio,
            undefined=NO_ANSWER, excluded=left_out, extra={"cut_off": cut},
        ),
    ]  # fmt: skip


def _cell(metric: str, unit: str, names: Sequence[str], sums: NDArray[np.float64], statistic: Any, **more: Any) -> Cell:
    order = sorted(range(len(names)), key=lambda place: names[place])
    counted = more.pop("counted", None)
    return Cell(
        metric=metric,
        clusters=tuple(names[place] for place in order),
        sums=sums[order],
        statistic=statistic,
        unit=unit,
        n=len(names),
        counted=None if counted is None else Share(*(column[order] for column in counted[:2])),
        **more,
    )


def _rows(rows: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def _ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return ratio(sums[..., 0], sums[..., 1])


def _percentage(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return 100 * _ratio(sums)
