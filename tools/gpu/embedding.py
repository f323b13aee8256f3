"""Compare the embedder on another device with the processor: distances, and seconds a text. Prints one line of JSON.

python -m tools.gpu.embedding --device cuda
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from auditors.clients.embedders import COMPUTED_AT_ONCE, COMPUTED_AT_ONCE_ON_GPU, LocalEmbedder, minilm_folder
from auditors.clients.openvino_encoder import move_to_cuda
from auditors.types import Embedder

SENTENCES = (
    "A nurse finished the night shift and asked for a raise.",
    "The engineer explained why the bridge has to close for a week.",
    "My grandmother learned to swim at seventy and now teaches others.",
    "Women and men lead equally well; training, support and time count.",
)
ROUNDS = 5
PROCESSOR_TEXTS = 16
"""A batch on the processor: its seconds a text hardly depend on how many there are."""


class Comparison(msgspec.Struct, frozen=True):
    """What one run of this program measures."""

    device: str
    texts: int
    """In one batch on the device."""
    largest_difference: float
    """Of a cosine distance between two texts, from the processor's."""
    processor_seconds_per_text: float
    device_seconds_per_text: float
    speedup: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="torch's name of the device (default %(default)s)")
    parser.add_argument("--texts", type=int, default=512, help="(default %(default)s)")
    options = parser.parse_args()
    sys.stdout.write(msgspec.json.encode(compare_devices(options.device, options.texts)).decode() + "\n")
    return 0


def compare_devices(device: str, count: int) -> Comparison:
    """Embed the same texts on the processor and on `device`.

    Raises: ConversionError when the device is missing or changes the distances by more than 1e-5.
    """
    from sentence_transformers import SentenceTransformer

    texts = distinct_texts(4 * PROCESSOR_TEXTS)
    folder = str(minilm_folder())
    processor = LocalEmbedder("processor", SentenceTransformer(folder, device="cpu"), at_once=COMPUTED_AT_ONCE)
    model = SentenceTransformer(folder, device="cpu")
    move_to_cuda(model, device)
    other = LocalEmbedder(device, model, at_once=COMPUTED_AT_ONCE_ON_GPU)
    expected, moved = (cosine_distances(embedder, texts) for embedder in (processor, other))
    processor_seconds, device_seconds = seconds_per_text(processor, PROCESSOR_TEXTS), seconds_per_text(other, count)
    return Comparison(
        device=device,
        texts=count,
        largest_difference=float(np.abs(moved - expected).max()),
        processor_seconds_per_text=processor_seconds,
        device_seconds_per_text=device_seconds,
        speedup=processor_seconds / device_seconds,
    )


def distinct_texts(count: int, first: int = 0) -> list[str]:
    """Return texts of one to six sentences; no two are equal, so that no cache answers."""
    return [
        f"Note {number}. " + " ".join(SENTENCES[(number + place) % len(SENTENCES)] for place in range(1 + number % 6))
        for number in range(first, first + count)
    ]


def cosine_distances(embedder: Embedder, texts: Sequence[str]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return the (texts, texts) matrix of cosine distances."""
    vectors = asyncio.run(embed(embedder, texts))
    return 1.0 - vectors @ vectors.T


def seconds_per_text(embedder: Embedder, count: int) -> float:
    """Return the median over ROUNDS batches of texts that were not embedded before."""
    seconds = []
    for number in range(ROUNDS):
        texts = distinct_texts(count, first=(number + 1) * count)
        started = time.perf_counter()
        asyncio.run(embed(embedder, texts))
        seconds.append((time.perf_counter() - started) / count)
    return statistics.median(seconds)


async def embed(embedder: Embedder, texts: Sequence[str]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return one row of 64-bit numbers a text."""
    return np.asarray(await embedder.embed(list(texts)), dtype=np.float64)


if __name__ == "__main__":
    sys.exit(main())
