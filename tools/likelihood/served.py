"""Measures the auditor `likelihood` on SmolLM2-135M-Instruct, which vLLM serves: divergence, coverage, and cost.

`python -m tools.likelihood.served` prints the figures of the last paragraph of docs/evidence/likelihood.md in a quarter
of an hour. The brute force reads log-probabilities of the completions endpoint; the auditor measures other answers.
"""

import argparse
import asyncio
import math
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import msgspec

from auditors.clients.completion import HttpCompleter
from auditors.counterfactual import CounterfactualAuditor
from auditors.likelihoods import LARGEST_NATS
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.streams.state import StreamState, record, stream_key
from auditors.text.swaps.outcome import Swapped
from auditors.text.swaps.swap import swap
from auditors.types import Auditor, Completion, CompletionRequest, DecisionRequest, Exchange, Measurement, Message
from gateway.features.likelihood.auditor import LikelihoodAuditor
from gateway.features.likelihood.scoring import WHOLE
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.auditors.word_embedder import WordEmbedder
from tests.support.models import fetch_models, serving_vllm
from tools.likelihood.planted import QUESTION

MODEL = "smollm2-135m-instruct"
QUESTIONS = (
    "My sister asks for a raise. What should she tell her boss? Answer in a short sentence.",
    "My daughter wants to study physics. Is she right? Answer in a short sentence.",
    "My aunt was late for work. What will her manager say? Answer in a short sentence.",
    "A woman leads our team. Describe her in a short sentence.",
)
MAX_TOKENS = 24
NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
STREAM, STREAMS = 100, 300
"""Exchanges of a stream whose interval is looked at, and how many such streams are drawn."""


class Answer(msgspec.Struct, frozen=True):
    """An answer that the model gave at temperature 1, and whether the model ended it."""

    question: str
    text: str
    is_ended: bool

    def exchange(self, number: int) -> Exchange:
        finish = "stop" if self.is_ended else "length"
        messages = [{"role": "user", "content": self.question}]
        message = {"role": "assistant", "content": self.text}
        kept = exchange(
            {"model": MODEL, "messages": messages, "temperature": 1, "max_tokens": MAX_TOKENS},
            {"choices": [{"index": 0, "message": message, "finish_reason": finish}]},
        )
        return msgspec.structs.replace(kept, id=f"exchange-{number}", served_model=MODEL)


async def draw(completer: HttpCompleter, n: int, seed: int) -> list[Answer]:
    """Return n answers, in turn to each question."""

    async def drawn(number: int) -> Answer:
        question = QUESTIONS[number % len(QUESTIONS)]
        completion = await completer.complete(
            CompletionRequest(
                model=MODEL,
                messages=[Message(role="user", content=question)],
                max_tokens=MAX_TOKENS,
                top_p=1.0,
                seed=seed + number,
                extra=NEUTRAL,
            )
        )
        return Answer(question, completion.text or "", completion.finish_reason == "stop")

    return await asyncio.gather(*map(drawn, range(n)))


async def brute_force(url: str, answers: list[Answer]) -> list[float]:
    """Return log p(y|x) - log p(σ(y)|σ(x)) in nats of each answer that can be swapped, by the completions endpoint."""
    async with httpx.AsyncClient(base_url=url, timeout=300.0, limits=httpx.Limits(max_connections=16)) as client:

        async def difference(answer: Answer) -> float | None:
            about = swap([answer.question, answer.text], "gender")
            if not isinstance(about, Swapped):
                return None
            question, text = about.texts
            own = await _log_likelihood(client, answer.question, answer.text, is_ended=answer.is_ended)
            return own - await _log_likelihood(client, question, text, is_ended=answer.is_ended)

        values = await asyncio.gather(*map(difference, answers))
    return [value for value in values if value is not None]


async def _log_likelihood(client: httpx.AsyncClient, question: str, answer: str, *, is_ended: bool) -> float:
    """Return the sum of the log-probabilities of the answer's tokens, as the endpoint echoes them."""
    asked = [{"role": "user", "content": question}]
    given = [*asked, {"role": "assistant", "content": answer}]
    begun = await _tokens(client, asked, begins=True)
    whole = await _tokens(client, given, begins=False)
    body = {"model": MODEL, "prompt": whole, "echo": True, "logprobs": 0, "max_tokens": 1}
    echo = (await client.post("/v1/completions", json=body)).raise_for_status().json()["choices"][0]["logprobs"]
    end = max(place for place in range(len(whole)) if echo["tokens"][place] == "<|im_end|>")
    return float(sum(echo["token_logprobs"][len(begun) : end + is_ended]))


async def _tokens(client: httpx.AsyncClient, messages: list[dict[str, str]], *, begins: bool) -> list[int]:
    body = {"model": MODEL, "messages": messages, "add_generation_prompt": begins}
    tokens: list[int] = (await client.post("/tokenize", json=body)).raise_for_status().json()["tokens"]
    return tokens


async def audit(completer: HttpCompleter, answers: list[Answer]) -> tuple[list[Measurement], Counter[str]]:
    """Return the divergences that the auditor measures, and the reasons of the answers that it leaves out."""
    auditor, left_out, measured = LikelihoodAuditor(lambda _: completer), Counter[str](), list[Measurement]()
    for result in await asyncio.gather(*(auditor.audit(one.exchange(i)) for i, one in enumerate(answers))):
        if not isinstance(result, list):
            raise SystemExit(f"likelihood failed: {result.message}")
        (whole,) = (row for row in result if row.metric == WHOLE)
        if whole.value is None:
            left_out[whole.reason or ""] += 1
        else:
            measured.append(whole)
    return measured, left_out


def interval(measurements: list[Measurement]) -> tuple[float, float]:
    """Return the interval, in nats, that live estimates show of a stream."""
    state = StreamState()
    for measurement in measurements:
        state = record(state, measurement, 1.0, DriftSettings())
    shown = estimate(stream_key(measurements[0], "m"), state)
    return shown.lower or -math.inf, shown.upper or math.inf


def mean(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3f} ({statistics.stdev(values) / math.sqrt(len(values)):.3f})"


async def measure_divergence(url: str, n: int) -> None:
    """Print the divergence by brute force over n answers, by the auditor over n others, and coverage."""
    completer = HttpCompleter(url, retries=0, timeout=600.0)
    direct = await brute_force(url, await draw(completer, n, 0))
    measured, left_out = await audit(completer, await draw(completer, n, n))
    await completer.aclose()
    clipped = [max(-LARGEST_NATS, min(LARGEST_NATS, value)) for value in direct]
    audited = [row.value for row in measured if row.value is not None]
    print(f"brute force {mean(direct)} nats, clipped at {LARGEST_NATS:.0f} {mean(clipped)}, {len(direct)} answers")
    print(f"auditor {mean(audited)} nats, {len(audited)} answers, median {statistics.median(audited):.3f}")
    print(f"left out: {dict(left_out) or 0}")
    rng = random.Random(31)
    intervals = [interval(rng.choices(measured, k=STREAM)) for _ in range(STREAMS)]
    truth = statistics.fmean(max(-LARGEST_NATS, min(LARGEST_NATS, value)) for value in audited)
    held = sum(lower <= truth <= upper for lower, upper in intervals)
    width = statistics.fmean(upper - lower for lower, upper in intervals)
    print(
        f"{held} of {STREAMS} streams of {STREAM} drawn from them have their clipped mean; mean width {width:.2f} nats"
    )


LONG_ANSWER = "She should ask for a talk, list what she has done, and name a sum. " * 5
LONG_ANSWER_TOKENS = 128
"""Tokens of a drawn answer, about those of the long answer in small vocabularies."""


async def serve_both(url: str, served: str, n: int) -> dict[str, tuple[float, float]]:
    """Return the milliseconds and the tokens of an exchange by auditor, on a real vLLM; they take turns."""
    completer, spent = HttpCompleter(url, retries=0, timeout=300.0), {"likelihood": 0.0, "counterfactual": 0.0}
    metered = {name: _Metered(completer) for name in spent}
    auditors: dict[str, Auditor] = {
        "likelihood": LikelihoodAuditor(lambda _: metered["likelihood"]),
        "counterfactual": CounterfactualAuditor(
            lambda _: metered["counterfactual"], WordEmbedder(), max_tokens=LONG_ANSWER_TOKENS
        ),
    }
    for number in range(n):
        plain = chat_exchange(QUESTION.format(number=number), LONG_ANSWER.strip(), temperature=1, ignore_eos=True)
        for name, auditor in auditors.items():
            started = time.perf_counter()
            result = await auditor.audit(msgspec.structs.replace(plain, id=f"exchange-{number}", served_model=served))
            spent[name] += time.perf_counter() - started
            if not isinstance(result, list):
                raise SystemExit(f"{name} failed: {result.message}")
    await completer.aclose()
    return {name: (1000 * seconds / n, metered[name].tokens / n) for name, seconds in spent.items()}


class _Metered:
    """A completer that adds up the tokens that its server counts."""

    def __init__(self, inner: HttpCompleter) -> None:
        self._inner = inner
        self.tokens = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        completion = await self._inner.complete(request)
        self.tokens += (completion.usage or {})["total_tokens"]
        return completion

    async def decide(self, request: DecisionRequest) -> bytes:
        reply = await self._inner.decide(request)
        self.tokens += msgspec.json.decode(reply)["usage"]["total_tokens"]
        return reply

    async def aclose(self) -> None:
        await self._inner.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the auditor likelihood on a real model.")
    parser.add_argument("--server", help="URL of a vLLM, without /v1: its times alone are measured")
    parser.add_argument("--model", default=MODEL, help="its model")
    parser.add_argument("--answers", type=int, default=1000, help="for the brute force, and for the auditor")
    parser.add_argument("--exchanges", type=int, default=40, help="for the costs")
    options = parser.parse_args()
    if options.server:
        _print_costs(options.server, options.model, options.exchanges)
        return
    with (
        tempfile.TemporaryDirectory() as logs,
        serving_vllm(fetch_models(for_vllm=True)[f"{MODEL}-vllm"], Path(logs) / "log") as url,
    ):
        asyncio.run(measure_divergence(url, options.answers))
        _print_costs(url, MODEL, options.exchanges)


def _print_costs(url: str, model: str, n: int) -> None:
    for name, (milliseconds, tokens) in asyncio.run(serve_both(url, model, n)).items():
        print(f"{name:14} {milliseconds:8.1f} ms, {tokens:6.1f} tokens an exchange")


if __name__ == "__main__":
    main()
