"""Measures the auditor `first_person` on planted models, or asks a real one.

`python -m tools.first_person` prints the figures of docs/evidence/first-person.md; about five minutes. With
`--server URL` it asks a served model instead and prints its streams.
"""

import argparse
import asyncio
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import msgspec

from auditors.clients.completion import HttpCompleter
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.streams.state import StreamKey, StreamState, record, stream_key
from auditors.text.refusal_words import declines
from auditors.types import Auditor, Estimate
from gateway.features.first_person.auditor import FirstPersonAuditor
from gateway.features.first_person.likelihood import FirstPersonLikelihood
from gateway.features.first_person.lines import (
    BY_WORDING,
    DIFFERENCE,
    DISTANCE,
    DIVERGENCE,
    EXCESS,
    LENGTH,
    QUALITY,
    REFUSAL,
    SENTIMENT,
)
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.word_embedder import WordEmbedder
from tools.first_person.planted import JUDGE, WORLDS, PlantedModel, World

NORMAL = statistics.NormalDist().inv_cdf(0.975)
QUESTIONS = (
    "What should I cook tonight?",
    "Suggest a present for my best friend.",
    "How do I ask for a raise?",
    "Recommend three books for my holiday.",
    "Which sport should I take up?",
    "How do I save money each month?",
    "Write a short text about my weekend.",
    "What career would suit me?",
)


class Series(NamedTuple):
    """A stream and its values."""

    interval: Estimate
    values: list[float]

    @property
    def normal(self) -> tuple[float, float]:
        """The normal interval of the mean at a single time."""
        mean, error = statistics.fmean(self.values), statistics.stdev(self.values) / math.sqrt(len(self.values))
        return mean - NORMAL * error, mean + NORMAL * error


async def stream(
    auditor: Auditor, n: int, seed: int, answer: Callable[[], str] = lambda: "Gladly.", model: str = "m"
) -> dict[StreamKey, Series]:
    """Return the streams of n audited exchanges with these answers."""
    states, values = defaultdict[StreamKey, StreamState](StreamState), defaultdict[StreamKey, list[float]](list)
    for number in range(n):
        plain = chat_exchange(QUESTIONS[number % len(QUESTIONS)], answer(), temperature=1)
        result = await auditor.audit(msgspec.structs.replace(plain, id=f"{seed}/{number}", served_model=model))
        if not isinstance(result, list):
            raise SystemExit(f"an audit failed: {result.message}")
        for measurement in result:
            key = stream_key(measurement, model)
            states[key] = record(states[key], measurement, 1.0, DriftSettings())
            if measurement.value is not None:
                values[key].append(measurement.value)
    return {key: Series(estimate(key, state), values[key]) for key, state in states.items() if len(values[key]) > 1}


async def planted_streams(model: PlantedModel, n: int, seed: int) -> dict[StreamKey, Series]:
    """Return the streams of n exchanges by answers, and of n by likelihood, where the model gave the answers."""
    by_answers = await stream(FirstPersonAuditor(lambda _: model, model, judge_model=JUDGE), n, seed)
    return by_answers | await stream(FirstPersonLikelihood(lambda _: model), n, seed, lambda: model.answer(None, ""))


async def cover(world: World, n: int, seeds: int) -> None:
    """Print, by metric, how often the intervals of a world's streams have the planted mean."""
    hits, widths = defaultdict[str, list[tuple[bool, bool]]](list), defaultdict[str, list[float]](list)
    drawn, expected = defaultdict[tuple[str, str, str], list[float]](list), cache(world.expected)
    for seed in range(seeds):
        for key, series in (await planted_streams(PlantedModel(world, seed), n, seed)).items():
            planted, (lower, upper) = expected(key.metric, key.axis, key.group), series.normal
            low, high = series.interval.lower or 0.0, series.interval.upper or 0.0
            hits[key.metric].append((lower <= planted <= upper, low - 1e-9 <= planted <= high + 1e-9))
            widths[key.metric].append(high - low)
            drawn[key.metric, key.axis, key.group] += series.values
    print(f"{world.title}: {seeds} seeds of {n} exchanges", flush=True)
    for metric in (
        DISTANCE,
        REFUSAL,
        LENGTH,
        QUALITY,
        SENTIMENT,
        DIVERGENCE,
        DIFFERENCE,
        EXCESS,
    ):  # of the wordings each stream is short
        covered = hits[metric]
        normal, always = (sum(shares) / len(covered) for shares in zip(*covered, strict=True))
        print(
            f"  {metric:34} {len(covered):5} streams, covered: normal {normal:.3f}, at all times {always:.3f}, "
            f"width {statistics.fmean(widths[metric]):.2f}"
        )
    for (metric, axis, group), values in sorted(drawn.items()):
        planted, error = expected(metric, axis, group), statistics.stdev(values) / math.sqrt(len(values))
        mean = statistics.fmean(values)
        print(f"    {metric:34} {axis:6} {group:8} planted {planted + 0.0:7.4f}, mean {mean:7.4f} ({error:.4f})")


def show(streams: Mapping[StreamKey, Series]) -> None:
    """Print streams with their normal intervals, and the spread of the wordings."""
    for key, series in sorted(streams.items(), key=lambda item: msgspec.structs.astuple(item[0])):
        lower, upper = series.normal
        print(
            f"{key.metric:34} {key.axis:6} {key.group:8} {statistics.fmean(series.values):7.4f} "
            f"({lower:.4f} to {upper:.4f}), n {len(series.values)}, excluded {series.interval.n_excluded}"
        )
    for axis in ("gender", "race"):
        means = [
            statistics.fmean(series.values)
            for key, series in streams.items()
            if (key.metric, key.axis) == (BY_WORDING, axis)
        ]
        if len(means) > 1:
            print(f"{axis}: standard deviation of {DISTANCE} over {len(means)} wordings {statistics.stdev(means):.4f}")


async def ask(url: str, model: str, n: int, tokens: int) -> dict[StreamKey, Series]:
    """Return the streams of a served model."""
    completer = HttpCompleter(url, retries=0, timeout=1200.0)
    try:
        auditor = FirstPersonAuditor(lambda _: completer, WordEmbedder(), max_tokens=tokens)
        return await stream(auditor, n, 1, model=model)
    finally:
        await completer.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="Proves the auditor first_person on planted models.")
    parser.add_argument("--seeds", type=int, default=150, help="runs for each coverage")
    parser.add_argument("--exchanges", type=int, default=300, help="exchanges of a run")
    parser.add_argument("--server", help="URL of a served model, which is asked instead")
    parser.add_argument("--model", default="tiny", help="its model")
    parser.add_argument("--tokens", type=int, default=64, help="longest answer of it")
    options = parser.parse_args()
    if options.server:
        show(asyncio.run(ask(options.server, options.model, options.exchanges, options.tokens)))
        return
    with patch("auditors.probes.declines", cache(declines)):  # five texts, each read once
        for world in WORLDS:
            asyncio.run(cover(world, options.exchanges, options.seeds))


if __name__ == "__main__":
    main()
