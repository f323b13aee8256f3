"""Answered examples of other axes before a question, half for each side; drawn by the seed, and never asked."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import msgspec

from auditors.types import Message
from benchmarks.errors import BenchmarkError
from benchmarks.suites.protocol import Item, item_rng

FEW_SHOTS = (0, 2, 4)
FEWEST_SETS, MOST_SETS = 2, 10
"""Sets of items set aside for each axis and kind: a quarter of them, within these ends."""

Sides = Callable[[Item], tuple[int, int]]
"""Places of the choices that stand for the one side and for the other."""


def after_examples(
    items: Iterable[Item],
    *,
    few_shot: int,
    seed: int,
    sides: Sides,
    kind: Callable[[Item], Hashable],
    answer: Callable[[Item, int], str] = lambda item, place: item.choices[place].text,
) -> Iterator[Item]:
    """Yield the asked items, each after `few_shot` (even) examples of its `kind`. Raises BenchmarkError for too few."""
    all_items = list(items)
    pool, aside = _pool(all_items, kind, seed)
    for item in all_items:
        if _set_of(item) not in aside:
            rng = item_rng(seed, f"examples/{item.item_id}")
            candidates = [example for example in pool if kind(example) == kind(item) and example.axis != item.axis]
            rng.shuffle(candidates)
            turns = [turn for _ in range(few_shot // 2) for turn in _pair(candidates, sides)]
            rng.shuffle(turns)
            messages = [message for example, place in turns for message in _turn(example, answer(example, place))]
            yield msgspec.structs.replace(item, messages=(item.messages[0], *messages, *item.messages[1:]))


def _pool(items: Sequence[Item], kind: Callable[[Item], Hashable], seed: int) -> tuple[list[Item], set[str]]:
    """Return the examples, one of each set and kind, and the names of the sets that are not asked."""
    parts: dict[tuple[str, Hashable], dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        parts[item.axis, kind(item)][_set_of(item)].append(item)
    examples, aside = [], set[str]()
    for (axis, of_kind), sets in sorted(parts.items(), key=str):
        rng = item_rng(seed, f"examples/{axis}/{of_kind}")
        n_sets = max(FEWEST_SETS, min(MOST_SETS, len(sets) // 4))
        names = [name for name in sets if name in aside][:n_sets]  # of the same set in another kind
        names += rng.sample([name for name in sets if name not in aside], max(0, n_sets - len(names)))
        aside.update(names)
        examples += [rng.choice(sets[name]) for name in names]
    return examples, aside


def _pair(candidates: list[Item], sides: Sides) -> list[tuple[Item, int]]:
    """Take two examples from the candidates, one answered for each side."""
    if len(candidates) < 2:
        raise BenchmarkError("too few examples of other axes in these data: ask without --few-shot")
    first = candidates.pop()
    place = sides(first)[0]
    second = next((other for other in candidates if sides(other)[1] != place), candidates[-1])
    candidates.remove(second)
    return [(first, place), (second, sides(second)[1])]


def _turn(example: Item, reply: str) -> tuple[Message, Message]:
    return example.messages[-1], Message("assistant", reply)


def _set_of(item: Item) -> str:
    return item.set_id or item.item_id
