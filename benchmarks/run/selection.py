"""Which items a run asks first: whole sets, spread over the data, the same for every larger limit and then some."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.suites.protocol import Item


class _Set(msgspec.Struct, frozen=True):
    """Items that belong together (Item.set_id), or one that stands alone."""

    items: list[Item]
    rank: bytes
    """Random by seed and set, the same in every run."""

    @property
    def axis(self) -> str:
        return self.items[0].axis

    @property
    def part(self) -> str:
        """What kind of set of its axis this is: the subsets it has."""
        return "/".join(sorted({item.subset or "" for item in self.items}))


def select(items: Sequence[Item], limit: int | None, seed: int) -> list[Item]:
    """At most `limit` items in their own order; all of them without a limit.

    Sets are taken whole. Their order is fixed by the seed: one of every axis, and within it one of every subset, before
    a second of any; after that each gets its share. A limit takes the sets that come first, up to the one that no
    longer fits, so that a larger limit contains every smaller one.

    Raises: BenchmarkError when not even the first set fits.
    """
    if limit is None or limit >= len(items):
        return list(items)
    ordered = _ordered(items, seed)
    chosen = _beginning(ordered, limit)
    if not chosen:
        n_first = len(ordered[0].items)
        raise BenchmarkError(
            f"limit {limit} is too small: the first {n_first} items belong together: use a limit of {n_first} or more"
        )
    return [item for item in items if item.item_id in chosen]


def beginnings(items: Sequence[Item], limits: Sequence[int], seed: int) -> list[list[Item]]:
    """What `select` chooses under each of several limits, for one sorting; those under which no set fits left out."""
    ordered = _ordered(items, seed)
    place = {item.item_id: number for number, item in enumerate(items)}
    found = (sorted(map(place.__getitem__, _beginning(ordered, limit))) for limit in limits)
    return [[items[number] for number in numbers] for numbers in found if numbers]


def at_least(items: Sequence[Item], n: int, seed: int) -> list[Item]:
    """The items of the sets that a limit takes first, as many as have `n` items or more; all where there are fewer."""
    chosen = set[str]()
    for one in _ordered(items, seed):
        if len(chosen) >= n:
            break
        chosen.update(item.item_id for item in one.items)
    return [item for item in items if item.item_id in chosen]


def _beginning(ordered: Sequence[_Set], limit: int) -> set[str]:
    """Ids of the items of the sets up to the one that no longer fits."""
    n_left, chosen = limit, set[str]()
    for one in ordered:
        if len(one.items) > n_left:
            break
        n_left -= len(one.items)
        chosen.update(item.item_id for item in one.items)
    return chosen


def _ordered(items: Sequence[Item], seed: int) -> list[_Set]:
    together: dict[str, list[Item]] = {}
    for item in items:
        # A set and an item that stands alone may have the same name.
        together.setdefault(f"item/{item.item_id}" if item.set_id is None else f"set/{item.set_id}", []).append(item)
    ranked = sorted((_Set(part, _digest(seed, name)) for name, part in together.items()), key=_rank)
    return _spread(_spread(parts) for parts in (_by(_part, own) for own in _by(_axis, ranked)))


def _spread(parts: Iterable[Sequence[_Set]]) -> list[_Set]:
    """One order of several, of which every beginning has its share of each, and one of each before a second of any."""
    placed = [(place / len(part), one.rank, one) for part in parts for place, one in enumerate(part)]
    return [one for _, _, one in sorted(placed, key=_place)]


def _by(key: Callable[[_Set], str], sets: Iterable[_Set]) -> list[list[_Set]]:
    parts: dict[str, list[_Set]] = {}
    for one in sets:
        parts.setdefault(key(one), []).append(one)
    return list(parts.values())


def _axis(one: _Set) -> str:
    return one.axis


def _part(one: _Set) -> str:
    return one.part


def _rank(one: _Set) -> bytes:
    return one.rank


def _place(entry: tuple[float, bytes, _Set]) -> tuple[float, bytes]:
    return entry[:2]


def _digest(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()
