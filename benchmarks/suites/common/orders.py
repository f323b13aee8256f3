"""Orders in which a prompt shows two things: balanced over the prompts of a category, not left to chance."""

from benchmarks.suites.protocol import item_rng


def swaps(seed: int, category: str, number: int) -> tuple[bool, bool]:
    """Return whether prompt `number` (from 0) of a category shows its first pair, and its second, the other way round.

    Of four prompts in a row each of the four combinations is one; which comes first is seeded by (seed, category). So
    of twenty prompts ten show the default group first, and of those five the positive word first.
    """
    turn = (item_rng(seed, category).randrange(4) + number) % 4
    return bool(turn & 1), bool(turn & 2)
