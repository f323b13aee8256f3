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
    """Everything registered in an entry point group, usable or not, in order, without loading any of it.

    As it was when first asked: it takes reading a file of each distribution that is installed.
    """
    return tuple(sorted({point.name for point in entry_points(group=group)}))


class Registered(Mapping[str, T], Generic[T]):
    """What is registered in an entry point group, by name and in the order of names; loaded when first looked at.

    Our own must load. Somebody else's that cannot be loaded or used, or whose name is taken, is left out with one
    warning that names its distribution.
    """

    def __init__(self, group: str, usable: Callable[[str, object], T]) -> None:
        """Loads nothing.

        Args: usable: makes of a name and the object registered under it what is wanted, or raises ValueError.
        """
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
        registered = sorted(entry_points(group=self._group), key=_ours_first)
        if not registered or _owner(registered[0]) != OWN:
            raise RuntimeError(f"{OWN} was installed before it had entry points ({self._group}): install it again")
        found: dict[str, T] = {}
        for one in registered:
            if one.name in found:
                self._leave_out(one, "the name is taken")
                continue
            try:
                found[one.name] = self._loaded(one)
            except (Exception, SystemExit) as exc:  # whatever somebody else's module raises
                if _owner(one) == OWN:
                    raise
                self._leave_out(one, f"{type(exc).__name__}: {exc}")
        return dict(sorted(found.items()))

    def _loaded(self, one: EntryPoint) -> T:
        if not NAME.fullmatch(one.name):
            raise ValueError("a name has small letters, digits and underscores only")
        return self._usable(one.name, one.load())

    def _leave_out(self, one: EntryPoint, reason: str) -> None:
        said = " ".join(reason.split())
        logger.warning('%s "%s" of the distribution %s is left out: %s', self._group, one.name, _owner(one), said)


def _ours_first(one: EntryPoint) -> tuple[bool, str, str]:
    return (_owner(one) != OWN, _owner(one), one.name)


def _owner(one: EntryPoint) -> str:
    """The distribution's name in its normal form."""
    return "" if one.dist is None else re.sub(r"[-_.]+", "-", one.dist.name).lower()
