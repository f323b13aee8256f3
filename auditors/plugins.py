"""Suites and auditors by entry point: those of this distribution, and those that other distributions bring."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

OWN = "biasgate"
NAME = re.compile(r"[a-z][a-z0-9_]*")
"""A name is part of file names, of labels in metrics, and of sections in configurations."""
T = TypeVar("T")


@cache
def names(group: str) -> tuple[str, ...]:
    """Everything registered in an entry point group, in order, not loaded. Cached: it reads many files."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


class Registered(Mapping[str, T], Generic[T]):
    """An entry point group's objects by name, loaded when looked at; others' unusable or taken ones get a warning."""

    def __init__(self, group: str, usable: Callable[[str, object], T]) -> None:
        """Loads nothing. `usable` makes what is wanted of a name and its object, or raises ValueError."""
        self._group = group
        self._usable = usable

    def __getitem__(self, name: str) -> T:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> dict[str, T]:
        registered = sorted(
            entry_points(group=self._group), key=lambda point: (_owner(point) != OWN, _owner(point), point.name)
        )
        if not registered or _owner(registered[0]) != OWN:
            raise RuntimeError(f"{OWN} was installed before it had entry points ({self._group}): install it again")
        plugins: dict[str, T] = {}
        for entry_point in registered:
            if entry_point.name in plugins:
                self._leave_out(entry_point, "the name is taken")
                continue
            try:
                if not NAME.fullmatch(entry_point.name):
                    raise ValueError("a name has small letters, digits and underscores only")
                plugins[entry_point.name] = self._usable(entry_point.name, entry_point.load())
            except (Exception, SystemExit) as exc:  # whatever somebody else's module raises
                if _owner(entry_point) == OWN:
                    raise
                self._leave_out(entry_point, f"{type(exc).__name__}: {exc}")
        return dict(sorted(plugins.items()))

    def _leave_out(self, entry_point: EntryPoint, reason: str) -> None:
        plugin = (self._group, entry_point.name, _owner(entry_point))
        logger.warning('%s "%s" of the distribution %s is left out: %s', *plugin, " ".join(reason.split()))


def _owner(entry_point: EntryPoint) -> str:
    return "" if entry_point.dist is None else re.sub(r"[-_.]+", "-", entry_point.dist.name).lower()
