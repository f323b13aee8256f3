"""Items with their replies, made when looked at, as memory may not hold them all: a selection of items is a view."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar, overload

import msgspec

from benchmarks.suites.protocol import Item, Observation, Reply

K = TypeVar("K", bound=Hashable)


def never() -> None:
    """Lets everything go on."""


class Observations(Sequence[Observation]):
    """Replies in the order of their items and samples, each made when it is looked at."""

    def __init__(
        self,
        items: Iterable[Item],
        replies_to: Callable[[Item], Iterable[Reply]],
        n_replies: Callable[[Item], int],
        checkpoint: Callable[[], None] = never,
    ) -> None:
        """`replies_to`: by sample; an item without any is left out. `checkpoint`: before each reply; may raise."""
        self.items = [item for item in items if n_replies(item)]
        self._replies_to = replies_to
        self._n_replies = n_replies
        self._checkpoint = checkpoint

    def where(self, keep: Callable[[Item], bool]) -> "Observations":
        """Return the observations of the items for which `keep` is true."""
        return Observations(filter(keep, self.items), self._replies_to, self._n_replies, self._checkpoint)

    def changed(self, change: Callable[[Reply], Reply]) -> "Observations":
        """The same with each reply changed when it is looked at."""
        before = self._replies_to
        return Observations(self.items, lambda item: map(change, before(item)), self._n_replies, self._checkpoint)

    def parts(self, key: "Callable[[Item], K]") -> "dict[K, Observations]":
        items_by_key: dict[K, list[Item]] = {}
        for item in self.items:
            items_by_key.setdefault(key(item), []).append(item)
        return {
            name: Observations(items, self._replies_to, self._n_replies, self._checkpoint)
            for name, items in items_by_key.items()
        }

    def __len__(self) -> int:
        return sum(map(self._n_replies, self.items))

    def __iter__(self) -> Iterator[Observation]:
        for item in self.items:
            for reply in self._replies_to(item):
                self._checkpoint()
                yield Observation(item, reply)

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Observation]: ...
    def __getitem__(self, index: int | slice) -> Observation | list[Observation]:
        """Return observations by walking to them: meant for a look, not for a loop."""
        if isinstance(index, slice):
            return list(self)[index]
        return next(islice(self, range(len(self))[index], None))


def where(observations: Sequence[Observation], keep: Callable[[Item], bool]) -> Sequence[Observation]:
    """The observations of the items that `keep` names, in their order."""
    if isinstance(observations, Observations):
        return observations.where(keep)
    return [observation for observation in observations if keep(observation.item)]


def parts(observations: Sequence[Observation], key: Callable[[Item], K]) -> Mapping[K, Sequence[Observation]]:
    """The observations by what `key` says of their items, in order of first appearance."""
    if isinstance(observations, Observations):
        return observations.parts(key)
    by_key: dict[K, list[Observation]] = {}
    for observation in observations:
        by_key.setdefault(key(observation.item), []).append(observation)
    return by_key


def without_exhausted(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return the observations as suites score them: a reply exhausted in thought is left out, like an error."""
    if isinstance(observations, Observations):
        return observations.changed(_no_reply)
    return [Observation(observation.item, _no_reply(observation.reply)) for observation in observations]


def _no_reply(reply: Reply) -> Reply:
    return msgspec.structs.replace(reply, status="error") if reply.status == "thinking_exhausted" else reply


def axis_of(item: Item) -> str:
    return item.axis


def items_of(observations: Sequence[Observation]) -> Sequence[Item]:
    """The items that have a reply, each once, in their order."""
    if isinstance(observations, Observations):
        return observations.items
    return list({observation.item.item_id: observation.item for observation in observations}.values())
