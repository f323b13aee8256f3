"""Measures the auditor `likelihood` on a planted model: divergence, coverage, and cost beside `counterfactual`.

`python -m tools.likelihood` prints the tables of docs/evidence/likelihood.md; about two minutes. For a real model see
`tools.likelihood.served`.
"""

import argparse
import asyncio
import math
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from auditors.clients.completion import HttpCompleter
from auditors.counterfactual import DISTANCE, CounterfactualAuditor
from auditors.likelihoods import LARGEST_NATS
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.streams.state import StreamState, record, stream_key
from auditors.types import Auditor, Measurement
from gateway.features.likelihood.auditor import LikelihoodAuditor
from gateway.features.likelihood.scoring import WHOLE
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.scripted import ScriptedServer, scripted_server
from tests.support.auditors.word_embedder import WordEmbedder
from tools.likelihood.planted import QUESTION, PlantedModel

STRENGTHS = (0.0, 0.3, 0.6, 1.0)


class Cost(NamedTuple):
    """Values of an auditor, and what an exchange cost."""

    values: list[float]
    tokens: float
    """Tokens that the server read or wrote for an exchange."""
    milliseconds: float

    @property
    def variation(self) -> float:
        """Standard deviation over mean: it decides how many exchanges an interval of a relative width takes."""
        return statistics.stdev(self.values) / statistics.mean(self.values)


def _measurement(value: float) -> Measurement:
    return Measurement(
        auditor="likelihood", auditor_version="1", metric=WHOLE, axis="gender", group="woman", value=value
    )


class Coverage(NamedTuple):
    """Shares of streams whose interval has a value, and the mean width in nats of the intervals that are shown."""

    clipped: float
    """The mean of values cut to LARGEST_NATS, by the interval that is shown, which holds at all times."""
    divergence: float
    normal: float
    """The mean of cut values, by its standard error at the last answer alone."""
    width: float


def cover(model: PlantedModel, n: int, seeds: int) -> Coverage:
    """Return the coverage over streams of n answers."""
    clipped, whole = model.enumerated(LARGEST_NATS), model.enumerated()
    hits, widths = [0, 0, 0], 0.0
    for seed in range(seeds):
        rng, state, values = random.Random(seed), StreamState(), list[float]()
        for _ in range(n):
            value = model.values(model.draw(rng, "woman"))[0]
            values.append(max(-LARGEST_NATS, min(LARGEST_NATS, value)))
            state = record(state, _measurement(value), 1.0, DriftSettings())
        interval = estimate(stream_key(_measurement(0.0), "m"), state)
        lower, upper = interval.lower or 0.0, interval.upper or 0.0
        hits[0] += lower - 1e-9 <= clipped <= upper + 1e-9
        hits[1] += lower - 1e-9 <= whole <= upper + 1e-9
        error = statistics.stdev(values) / math.sqrt(n)
        hits[2] += abs(statistics.fmean(values) - clipped) <= 1.96 * error + 1e-9
        widths += upper - lower
    return Coverage(hits[0] / seeds, hits[1] / seeds, hits[2] / seeds, widths / seeds)


async def spend(model: PlantedModel, build: Callable[[HttpCompleter], Auditor], metric: str, n: int) -> Cost:
    """Return the values of n exchanges and their mean cost, asked one after another over HTTP."""
    rng = random.Random(17)
    async with scripted_server(partial(model.reply, rng=random.Random(23))) as server:
        completer = HttpCompleter(server.base_url, retries=0)
        auditor, values, started = build(completer), list[float](), time.perf_counter()
        for number in range(n):
            plain = chat_exchange(
                QUESTION.format(number=number), "".join(model.draw(rng, "woman")), temperature=1, max_tokens=200
            )
            result = await auditor.audit(msgspec.structs.replace(plain, id=f"exchange-{number}"))
            if not isinstance(result, list):
                raise SystemExit(f"{metric} failed: {result.message}")
            values += [one.value for one in result if one.metric == metric and one.value is not None]
        seconds = time.perf_counter() - started
        await completer.aclose()
        return Cost(values, _tokens(model, server) / n, 1000 * seconds / n)


def _tokens(model: PlantedModel, server: ScriptedServer) -> float:
    """Return the tokens of all requests, as the server counts them."""
    rng = random.Random(29)
    replies = (msgspec.json.decode(model.reply(asked, rng).body) for asked in server.asked)
    return float(sum(reply["usage"]["total_tokens"] for reply in replies))


async def compare(model: PlantedModel, n: int) -> tuple[Cost, Cost]:
    """Return the costs of `likelihood` and of `counterfactual` on the same traffic."""
    exact = await spend(model, lambda completer: LikelihoodAuditor(lambda _: completer), WHOLE, n)
    drawn = await spend(
        model, lambda completer: CounterfactualAuditor(lambda _: completer, WordEmbedder()), DISTANCE, n
    )
    return exact, drawn


def main() -> None:
    parser = argparse.ArgumentParser(description="Proves the auditor likelihood on a planted model.")
    parser.add_argument("--seeds", type=int, default=300, help="streams for each coverage")
    parser.add_argument("--samples", type=int, default=100_000, help="answers for each brute-force mean")
    parser.add_argument("--exchanges", type=int, default=400, help="exchanges for the costs")
    options = parser.parse_args()
    print("strength  enumerated  brute force (standard error)  clipped  coverage: clipped, divergence; normal  width")
    for strength in STRENGTHS:
        model, rng = PlantedModel(strength), random.Random(41)
        values = [model.values(model.draw(rng, "woman"))[0] for _ in range(options.samples)]
        error = statistics.pstdev(values) / math.sqrt(len(values))
        for n in (100, 500):
            covered = cover(model, n, options.seeds)
            print(
                f"{strength:8.1f}  {model.enumerated():10.4f}  {statistics.fmean(values):12.4f} ({error:.4f})"
                f"  {model.enumerated(LARGEST_NATS):7.4f}  n {n}: {covered.clipped:.3f}, {covered.divergence:.3f};"
                f" {covered.normal:.3f}  {covered.width:.2f}"
            )
    for strength in (0.3, 1.0):
        exact, drawn = asyncio.run(compare(PlantedModel(strength), options.exchanges))
        print(f"strength {strength}: tokens, milliseconds an exchange; variation; exchanges with a value")
        for name, cost in (("likelihood", exact), ("counterfactual", drawn)):
            print(f"  {name:14} {cost.tokens:7.1f} {cost.milliseconds:7.1f}  {cost.variation:6.2f}  {len(cost.values)}")
        ratio = (drawn.variation / exact.variation) ** 2
        print(
            f"  for the same relative width: {ratio * drawn.tokens / exact.tokens:.1f} times the tokens, "
            f"{ratio:.1f} times the exchanges"
        )


if __name__ == "__main__":
    main()
