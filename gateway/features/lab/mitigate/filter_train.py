"""`biasgate mitigate filter train`: trains the head of a filter's classifier on labelled examples."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auditors.clients.embedders import EmbedderError, RemoteEmbedder, load_embedder
from auditors.metrics.intervals import Interval
from auditors.types import CompletionError, Embedder
from benchmarks.errors import BenchmarkError
from benchmarks.lab.filter_head.training import Part, Trained, read_examples, split, train
from gateway.cli.actions import write_file
from gateway.features.mitigation.filter_plan import KIND, Head
from gateway.features.mitigation.filters.filter import Excerpt

HELP = """\
FILE has one JSON object a line: {"text": ..., "biased": true|false, "cluster": NAME}. Examples that were made of one
another have one cluster, which is never split. Half of the clusters train, a fifth chooses penalty and threshold, and
what is printed comes from the rest. The same embedder must be served to the gateway under the same name.

Example:
  biasgate mitigate filter train --examples labelled.jsonl --embedder bge-small --base-url http://127.0.0.1:8002 \\
    --out head.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", type=Path, required=True, metavar="FILE", help="labelled texts, JSON lines")
    parser.add_argument("--embedder", required=True, metavar="NAME", help="its name at the server")
    parser.add_argument("--base-url", metavar="URL", help="where it is served (default: loaded here, as minilm)")
    parser.add_argument("--local", metavar="NAME_OR_DIR", help="load this one here in place of a server")
    parser.add_argument("--specificity", type=float, default=0.95, metavar="S", help="to be left alone (default 0.95)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the split (default 0)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the head, as JSON")


def run(arguments: argparse.Namespace) -> int:
    if not 0 < arguments.specificity < 1:
        raise BenchmarkError(f"--specificity {arguments.specificity:g}: between 0 and 1")
    if arguments.base_url and arguments.local:
        raise BenchmarkError("--base-url and --local: give one of the two")
    if not arguments.out.parent.is_dir():
        raise BenchmarkError(f"--out {arguments.out}: the directory {arguments.out.parent} does not exist")
    examples = read_examples(arguments.examples)
    parts = split(examples, arguments.seed)
    excerpts = {part: [_make_excerpt(member.text) for member in members] for part, members in parts.items()}
    try:
        vectors = asyncio.run(_embedded(arguments, excerpts))
    except (EmbedderError, CompletionError, ValueError) as exc:
        raise BenchmarkError(f"embedder {arguments.embedder}: {exc}") from exc
    trained = train(vectors, parts, specificity=arguments.specificity)
    head = Head(
        kind=KIND,
        embedder=arguments.embedder,
        weights=tuple(float(f"{weight:.6g}") for weight in trained.weights),
        bias=trained.bias,
        threshold=trained.threshold,
        examples_sha256=examples.sha256,
        card=_card(trained, {part: len(members) for part, members in parts.items()}, arguments),
    )
    write_file(arguments.out, msgspec.json.format(msgspec.json.encode(head)) + b"\n")
    sizes = ", ".join(f"{len(members)} {part}" for part, members in parts.items())
    print(f"{arguments.out}: {len(trained.weights)} weights on {arguments.embedder}, threshold {trained.threshold:.3f}")
    print(f"examples: {sizes}")
    print(f"held out: AUC {_words(trained.auc)}")
    print(f"          sensitivity {_words(trained.sensitivity)}")
    print(f"          specificity {_words(trained.specificity)}")
    return 0


def _make_excerpt(text: str) -> str:
    excerpt = Excerpt()
    excerpt.add(text)
    return excerpt.text


async def _embedded(arguments: argparse.Namespace, excerpts: dict[Part, list[str]]) -> dict[Part, Any]:
    embedder: Embedder
    if arguments.base_url:
        embedder = remote = RemoteEmbedder(arguments.base_url, arguments.embedder)
        try:
            return {part: np.asarray(await embedder.embed(texts), np.float64) for part, texts in excerpts.items()}
        finally:
            await remote.aclose()
    embedder = load_embedder(arguments.local or "minilm")
    return {part: np.asarray(await embedder.embed(texts), np.float64) for part, texts in excerpts.items()}


def _card(trained: Trained, sizes: dict[Part, int], arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "examples": arguments.examples.name,
        "n": sizes,
        "seed": arguments.seed,
        "penalty": trained.penalty,
        "specificity_asked": arguments.specificity,
        "held_out": {name: _plain(getattr(trained, name)) for name in ("auc", "sensitivity", "specificity")},
    }


def _plain(estimate: tuple[float, Interval] | None) -> dict[str, float] | None:
    if estimate is None:
        return None
    return {"value": estimate[0], "lower": estimate[1].lower, "upper": estimate[1].upper}


def _words(estimate: tuple[float, Interval] | None) -> str:
    return "unknown" if estimate is None else f"{estimate[0]:.3f} [{estimate[1].lower:.3f}, {estimate[1].upper:.3f}]"
