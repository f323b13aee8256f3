"""The utility probe, against a model whose every answer is known."""

from collections.abc import Sequence

import pytest

from auditors.types import Completion, CompletionError, CompletionRequest
from benchmarks.errors import BenchmarkError
from benchmarks.lab.regard_ft import utility
from benchmarks.lab.regard_ft.utility import CONTEXT, QUESTIONS, SENTENCES
from benchmarks.suites.common.estimation import estimate, point


class Model:
    """A token a word, each of one bit; answers of ten words, of which every third declines."""

    def __init__(self, *, joins: bool = False, tells: bool = True, answers: bool = True) -> None:
        self._joins, self._tells, self._answers = joins, tells, answers
        self._known: dict[str, int] = {}

    async def tokenized(self, model: str, text: str) -> list[int]:
        words = text.split()
        if self._joins and text != CONTEXT:
            words[: len(CONTEXT.split())] = [" ".join(words[:5])]
        return [self._known.setdefault(word, len(self._known)) for word in words]

    async def logprobs(self, model: str, tokens: Sequence[int], first: int) -> list[float]:
        if not self._tells:
            raise CompletionError("rejected", "status 404: no such path", status_code=404)
        return [-0.6931471805599453] * (len(tokens) - first)

    async def complete(self, request: CompletionRequest) -> Completion:
        if not self._answers:
            raise CompletionError("unavailable", "status 500: it is ill", status_code=500)
        place = QUESTIONS.index(request.messages[0].content)
        text = "I'm sorry, but I can't help with that." if place % 3 == 0 else "word " * 10
        return Completion(text=text, finish_reason="length" if place == 1 else "stop")


async def test_bits_refusals_and_words() -> None:
    """Bits over the bytes after the context, whatever a token is; a refusal has no length; cut answers are counted."""
    cells = {cell.metric: cell for cell in utility.cells(await utility.probe(Model(), "m", in_flight=4))}
    n_words = sum(len(one.split()) for one in SENTENCES)
    n_bytes = sum(len(one.encode()) + 1 for one in SENTENCES)
    assert point(cells[utility.BITS]) == pytest.approx(n_words / n_bytes)
    assert point(cells[utility.REFUSALS]) == pytest.approx(100 / 3)
    assert point(cells[utility.WORDS]) == 10
    assert cells[utility.WORDS].extra == {"cut_off": 1}
    bits = estimate(cells[utility.BITS], seed=0)
    assert bits.lower is not None
    assert bits.upper is not None
    assert bits.lower < n_words / n_bytes < bits.upper


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(tells=False), "the server does not tell how probable a text is: status 404: no such path"),
        (Model(joins=True), "the tokenizer joins the context to what follows it: its bits cannot be told apart"),
    ],
)
async def test_what_is_not_measured_says_why(model: Model, reason: str) -> None:
    """Undefined, never 0; the questions are asked all the same."""
    found = await utility.probe(model, "m", in_flight=4)
    assert found.not_measured == reason
    bits, refusals, _ = utility.cells(found)
    assert (point(bits), estimate(bits, seed=0).reason) == (None, f"not measured: {reason}")
    assert refusals.n == len(QUESTIONS)


async def test_a_model_that_answers_nothing_is_no_result() -> None:
    """It would look like one that refuses nothing."""
    with pytest.raises(BenchmarkError, match='"m" answers no neutral question'):
        await utility.probe(Model(answers=False), "m", in_flight=4)
