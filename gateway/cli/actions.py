"""The actions of a command: each a module with `HELP`, `add_arguments(parser)` and `run(arguments)`, and a summary."""

import argparse
from collections.abc import Mapping
from typing import Any, Protocol


class Action(Protocol):
    """A module of an action; `run` returns the exit code."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def add_actions(actions: Any, of: Mapping[str, tuple[Action, str]]) -> list[argparse.ArgumentParser]:
    """Adds a parser for each to what `add_subparsers` gave, and returns them."""
    parsers = []
    for name, (module, summary) in of.items():
        action = actions.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(action)
        parsers.append(action)
    return parsers
