"""Seeded mutations of a target's seeds: what runs where no coverage-guided fuzzer is installed, and in the tests."""

import random
from collections.abc import Iterator, Sequence

MAX_BYTES = 8192


def mutants(seeds: Sequence[bytes], tokens: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """The seeds themselves, then mutants of them without end, the same for the same `seed`."""
    yield from seeds
    draw = random.Random(seed)
    while True:
        data = bytearray(draw.choice(seeds))
        for _ in range(1 << draw.randrange(5)):
            _mutate(data, seeds, tokens, draw)
        yield bytes(data[:MAX_BYTES])


def _mutate(data: bytearray, seeds: Sequence[bytes], tokens: Sequence[bytes], draw: random.Random) -> None:
    """One change, in place."""
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice((1, 1, 2, 4, 16, 64)))
    match draw.randrange(7):
        case 0:
            data[start:start] = draw.choice(tokens)
        case 1:
            data[start:end] = draw.choice(tokens)
        case 2:
            del data[start:end]
        case 3:
            data[start:start] = data[start:end]
        case 4:
            data[start:end] = draw.randbytes(end - start)
        case 5:
            other = draw.choice(seeds)
            data[start:] = other[draw.randrange(len(other)) :]
        case _ if start < len(data):
            data[start] ^= 1 << draw.randrange(8)
