"""Limits: whole sets, never too many, nested, every axis represented, in every suite."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.errors import BenchmarkError
from benchmarks.run.plan import select
from benchmarks.run.score import score_recorded
from benchmarks.suites import registry
from benchmarks.suites.protocol import Item, Reply
from tests.support.benchmarks.scripted import plan


def item(item_id: str, axis: str, set_id: str | None, subset: str | None = None) -> Item:
    return Item(item_id=item_id, messages=(), axis=axis, groups=(), cluster="all", set_id=set_id, subset=subset)


def built(sizes: Sequence[tuple[int, int]], *, alone: int) -> list[Item]:
    """Sets of the given (axis, size), and `alone` items without one."""
    items = [item(f"{n}-{k}", f"axis{axis}", str(n)) for n, (axis, size) in enumerate(sizes) for k in range(size)]
    return items + [item(str(n), "axis0", None) for n in range(alone)]


sizes = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=40)
alone = st.integers(0, 20)


def taken(items: Sequence[Item], limit: int, seed: int) -> list[Item]:
    """The selection, empty when not even the first set fits."""
    try:
        return select(items, limit, seed)
    except BenchmarkError:
        return []


@given(sizes=sizes, alone=alone, limit=st.integers(1, 120), seed=st.integers(0, 5))
def test_sets_are_whole_and_the_limit_holds(sizes: Any, alone: int, limit: int, seed: int) -> None:
    """Never more than the limit, never a part of a set, and no room left for another set of the smallest size of 4."""
    items = built(sizes, alone=alone)
    chosen = taken(items, limit, seed)

    assert len(chosen) <= limit
    assert len(chosen) >= min(limit - 3, len(items))
    kept = {one.item_id for one in chosen}
    assert chosen == [one for one in items if one.item_id in kept]
    for name in {one.set_id for one in chosen if one.set_id}:
        assert {one.item_id for one in items if one.set_id == name} <= kept


@given(sizes=sizes, alone=alone, few=st.integers(1, 100), more=st.integers(0, 100), seed=st.integers(0, 5))
def test_limits_nest(sizes: Any, alone: int, few: int, more: int, seed: int) -> None:
    """What a smaller limit asks, every larger one asks too."""
    items = built(sizes, alone=alone)
    small, large = ({one.item_id for one in taken(items, n, seed)} for n in (few, few + more))

    assert small <= large


@given(sizes=sizes, alone=alone, limit=st.integers(16, 120), seed=st.integers(0, 5))
def test_every_axis_comes_first_once(sizes: Any, alone: int, limit: int, seed: int) -> None:
    """Four axes with sets of at most four: 16 items are enough to have each of them."""
    items = built(sizes, alone=alone)

    assert {one.axis for one in taken(items, limit, seed)} == {one.axis for one in items}


def test_each_axis_gets_its_share() -> None:
    """90 items of one axis and 10 of another: 50 of them are 45 and 5, whatever the seed; the items differ by seed."""
    items = [item(str(n), "small" if n < 10 else "large", None) for n in range(100)]
    chosen = [select(items, 50, seed) for seed in range(20)]

    assert {tuple(sorted(Counter(one.axis for one in some).values())) for some in chosen} == {(5, 45)}
    assert len({tuple(one.item_id for one in some) for some in chosen}) == 20


def test_a_limit_below_the_first_set_is_refused() -> None:
    """Half a set is never asked: the message gives the smallest limit that works."""
    with pytest.raises(BenchmarkError, match="limit 3 is too small: the first 4 items belong together") as refused:
        plan(suite="unqover", limit=3)

    assert "use a limit of 4 or more" in str(refused.value)
    assert len(plan(suite="unqover", limit=4).items) == 4


@pytest.mark.parametrize("suite", sorted(registry.SUITES))
def test_every_suite(suite: str) -> None:
    """Embedded items of every suite and protocol: sets stay whole and are small, limits nest, axes are all there."""
    for protocol in registry.SUITES[suite].protocols:
        everything = plan(suite=suite, protocol=protocol).items
        members = defaultdict(set)
        for one in everything:
            members[one.set_id or one.item_id].add(one.item_id)
        assert max(len(ids) for ids in members.values()) <= 9
        before: set[str] = set()
        for limit in (9, 17, 40, 10_000):
            chosen = {one.item_id for one in select(everything, limit, 0)}
            assert before <= chosen
            assert len(chosen) <= limit
            assert all(ids <= chosen or not ids & chosen for ids in members.values())
            before = chosen
        axes = {one.axis for one in everything}
        enough = len(axes) * max(len(ids) for ids in members.values())
        assert {one.axis for one in select(everything, enough, 0)} == axes


def test_samples_multiply_replies_not_items() -> None:
    """A limit counts items; with three replies to each, four items are twelve requests and n_used stays four."""
    ready = plan(suite="winobias", limit=4, samples=3)
    replies = [Reply(item_id=one.item_id, sample=n, text="he") for one in ready.items for n in range(3)]
    result = score_recorded(ready, replies, where="script")[0]

    assert (len(ready.items), ready.total) == (4, 12)
    assert (result.dataset.n_used, result.counts["ok"]) == (4, 12)
