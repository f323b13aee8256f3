"""Texts are embedded while others are asked for: when, each once, with the same numbers, whatever fails."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.clients.embedders import load_embedder
from auditors.types import Completion, CompletionError, CompletionRequest, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run.follow_up import embedded
from benchmarks.run.runner import Plan, Progress, run_plan
from benchmarks.run.thinking import QUESTION
from benchmarks.suites.protocol import Reply
from tests.support.benchmarks.scripted import MemoryLog, plan


def cogs(n: int, **options: object) -> Plan:
    return plan(suite="cogs", limit=n, embedder="letters", **options)


class Writer:
    """Writes a text of its own for each prompt, chooses the first, and counts."""

    def __init__(self, *, fails_on: int | None = None) -> None:
        self.n_written = 0
        self._fails_on = fails_on

    async def complete(self, request: CompletionRequest) -> Completion:
        await asyncio.sleep(0.001)
        prompt = request.messages[-1].content
        if prompt == QUESTION or request.max_tokens == 256:
            return Completion(text="Choice 1", finish_reason="stop")
        self.n_written += 1
        if self.n_written == self._fails_on:
            raise CompletionError("unavailable", "503", status_code=503)
        return Completion(text=f"{prompt} {hashlib.sha256(prompt.encode()).hexdigest()}", finish_reason="stop")

    async def aclose(self) -> None:
        """Holds nothing open."""


class Letters:
    """Counts letters, and notes of which texts and after how many requests."""

    name = "letters"

    def __init__(self, writer: Writer) -> None:
        self.seen = Counter[str]()
        self.first_after: int | None = None
        self._writer = writer

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.first_after is None:
            self.first_after = self._writer.n_written
        self.seen.update(texts)
        await asyncio.sleep(0.005)
        counts = [[1 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        vectors = np.array(counts, dtype=np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def distances(replies: Sequence[Reply]) -> dict[tuple[str, int], float]:
    """The distance that each reply has last."""
    latest = {(reply.item_id, reply.sample): reply for reply in replies}
    return {key: reply.parsed["distance"] for key, reply in latest.items() if "distance" in (reply.parsed or {})}


async def one_after_the_other(ready: Plan, log: MemoryLog, embedder: Embedder) -> dict[tuple[str, int], float]:
    """What the texts of a log come to, put to the embedder as a whole."""
    written = [reply for reply in log.replies if reply.text and "distance" not in (reply.parsed or {})]
    return distances(await embedded(ready, {(one.item_id, one.sample): one for one in written}, embedder))


async def test_texts_are_embedded_beside_the_requests() -> None:
    """The first long before the last is written; each once; the distances are those of all texts at once."""
    ready, log, writer = cogs(90, samples=2, concurrency=4), MemoryLog(), Writer()
    embedder = Letters(writer)
    result = await run_plan(ready, completer=writer, log=log, embedder=embedder)

    assert writer.n_written == 180
    assert embedder.first_after is not None
    assert embedder.first_after < 90
    assert set(embedder.seen.values()) == {2}  # both samples have the same text
    assert embedder.seen.total() == 180
    assert result.provenance.embedder == "letters"
    found = distances(log.replies)
    assert len(found) == 160
    assert found == pytest.approx(await one_after_the_other(ready, log, Letters(writer)), abs=1e-6)
    [score] = [one for one in result.estimates if (one.metric, one.axis) == ("representative_bias_score", "gender")]
    assert score.value is not None
    assert score.n == 20


async def test_real_vectors_do_not_depend_on_the_batches() -> None:
    """MiniLM: every distance agrees to rounding with that of all texts in one batch."""
    minilm, ready, log = load_embedder("minilm"), cogs(27, concurrency=4), MemoryLog()
    await run_plan(ready, completer=Writer(), log=log, embedder=minilm)

    found = distances(log.replies)
    assert len(found) == 24
    assert found == pytest.approx(await one_after_the_other(ready, log, minilm), abs=1e-5)


async def test_a_text_that_failed_leaves_the_others() -> None:
    """Its cluster is embedded at the end without it; a resumed run asks for it and completes the score."""
    ready, log, writer = cogs(27, concurrency=1), MemoryLog(), Writer(fails_on=5)
    embedder = Letters(writer)
    result = await run_plan(ready, completer=writer, log=log, embedder=embedder)

    # The second round of questions asks for what failed once more, which now succeeds.
    assert embedder.seen.total() == 27
    assert len(distances(log.replies)) == 24
    assert result.counts["error"] == 0

    class Never(Writer):
        async def complete(self, request: CompletionRequest) -> Completion:
            if request.max_tokens > 256 and "queer" in request.messages[-1].content:
                raise CompletionError("unavailable", "503", status_code=503)
            return await super().complete(request)

    lacking, without = MemoryLog(), Never()
    seen = Letters(without)
    result = await run_plan(ready, completer=without, log=lacking, embedder=seen)
    assert result.counts["error"] > 0
    assert without.n_written == 24
    assert result.counts["error"] == 3
    assert seen.seen.total() == 24
    assert len(distances(lacking.replies)) == 21


async def test_a_stopped_run_embeds_the_rest() -> None:
    """Stopped among the texts, it goes on to the numbers of a run that was not."""
    whole = await run_plan(cogs(45), completer=Writer(), log=MemoryLog(), embedder=Letters(Writer()))
    ready, log, stop = cogs(45, concurrency=2), MemoryLog(), asyncio.Event()

    def stop_there(progress: Progress) -> None:
        if progress.done >= 25:
            stop.set()

    writer = Writer()
    with pytest.raises(RunStopped):
        await run_plan(ready, completer=writer, log=log, embedder=Letters(writer), stop=stop, on_progress=stop_there)
    result = await run_plan(ready, completer=Writer(), log=log, embedder=Letters(Writer()))

    assert result.estimates == whole.estimates


async def test_an_embedder_that_does_not_answer_costs_no_reply() -> None:
    """One line at the end, with every text in the log."""

    class Down(Letters):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise CompletionError("unavailable", "connection refused")

    writer, log = Writer(), MemoryLog()
    with pytest.raises(BenchmarkError, match="embedder letters: connection refused"):
        await run_plan(cogs(27), completer=writer, log=log, embedder=Down(writer))

    assert writer.n_written == 27
    assert {reply.status for reply in log.replies} == {"ok"}
