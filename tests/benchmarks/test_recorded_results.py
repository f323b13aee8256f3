"""Results of every suite on recorded replies, pinned before the modules were moved: nothing may change a number unseen.

`recorded/` holds replies of the simulated model (profile demo, seed 3) to embedded items, and digests of their results
to 12 significant digits. A change that moves a number raises the suite's version and writes the digests anew:
`python -m tests.benchmarks.test_recorded_results`.
"""

import asyncio
import gzip
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.reporting.headline import key_of
from benchmarks.run.follow_up import embedded, observed
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result, joined
from benchmarks.run.score import provenance_of, read_recorded, score
from benchmarks.suites.decision.scores import JOINT_SCORE
from benchmarks.suites.protocol import Observation, Reply
from benchmarks.suites.registry import SUITES

RECORDED = Path(__file__).parent / "recorded"
DIGESTS = RECORDED / "digests.json"
RUNS = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))
JOINT = "decision.corrected.sample+implicit_association.corrected.sample"
DIGITS = 12
"""Sums of floats may differ in their last bits between processors."""


class LetterEmbedder:
    """Vectors that are the same on every machine: how often a text holds each letter."""

    name = "letters"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = [[text.lower().count(chr(97 + letter)) + 1 for letter in range(26)] for text in texts]
        vectors = np.array(counts, dtype=np.float64)
        lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / lengths, dtype=np.float32)


@cache
def scored(run: str) -> tuple[Result, Sequence[Observation]]:
    """The result of recorded replies, and what it rests on."""
    suite, protocol, mode = run.split(".")
    lines = gzip.decompress((RECORDED / f"{run}.jsonl.gz").read_bytes()).splitlines()
    replies = [msgspec.json.decode(line, type=Reply) for line in lines]
    options = {"suite": suite, "protocol": protocol, "mode": mode, "model": "simulated", "data": "embedded", "seed": 1}
    plan, read = read_recorded(prepare(msgspec.convert(options, RunOptions)), replies, where=run)
    changed = asyncio.run(embedded(plan, read, LetterEmbedder()))
    read |= {(reply.item_id, reply.sample): reply for reply in changed}
    return score(plan, read, provenance_of(plan, read)), observed(plan, read)


def digest(result: Result) -> str:
    """Of the counts and of every estimate with its interval, n and reason."""
    counts = {status: count for status, count in result.counts.items() if count or status != "thinking_exhausted"}
    found = [counts, *msgspec.to_builtins(result.estimates)]
    return hashlib.sha256(json.dumps(rounded(found), sort_keys=True).encode()).hexdigest()


def rounded(value: Any) -> Any:
    match value:
        case float():
            return f"{value:.{DIGITS - 1}e}"
        case list() | tuple():
            return [rounded(one) for one in value]
        case dict():
            return {name: rounded(one) for name, one in value.items()}
    return value


def digests() -> dict[str, str]:
    return {run: digest(scored(run)[0]) for run in RUNS} | {JOINT: digest(joint())}


def joint() -> Result:
    """A decision run with the score that it and an association run give together."""
    decision, associations = (scored(run) for run in JOINT.split("+"))
    return joined(decision[0], JOINT_SCORE, decision[1], associations[1], "embedded")


@pytest.mark.parametrize("run", RUNS)
def test_result_is_unchanged(run: str) -> None:
    """Every number of this run is what it was; its suite's headline is among them under every protocol."""
    result, observations = scored(run)
    assert len(observations) > 20
    assert SUITES[result.suite].headline in [key_of(estimate) for estimate in result.estimates]
    assert digest(result) == json.loads(DIGESTS.read_text())[run]


def test_joint_score_is_unchanged() -> None:
    """So is the number that two runs give together."""
    assert digest(joint()) == json.loads(DIGESTS.read_text())[JOINT]


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps(digests(), indent=1, sort_keys=True) + "\n")
