"""The actions of a command. Each is named by its module, as a command is."""

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from gateway.errors import GatewayError
from gateway.feature import Command


def write_file(path: Path, content: bytes | str) -> None:
    """Writes a file, text as UTF-8. Raises GatewayError where it cannot be written."""
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as exc:
        raise GatewayError(f"{path}: cannot be written: {exc.strerror}") from exc


def add_actions(actions: Any, commands: Mapping[str, Command]) -> list[argparse.ArgumentParser]:
    """Add a parser for each action to what `add_subparsers` returned, and return the parsers."""
    parsers = []
    for name, command in commands.items():
        module = import_module(command.module)
        action = actions.add_parser(
            name,
            help=command.summary,
            description=command.summary,
            epilog=module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(action)
        action.set_defaults(run_action=module.run)
        parsers.append(action)
    return parsers


def add_earlier_spelling(
    parser: argparse.ArgumentParser, option: str, name: str, convert: Callable[[str], Any] = str
) -> None:
    """Accept an earlier spelling of the option that sets `name`; help does not show it."""
    parser.add_argument(option, dest=name, type=convert, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run_action(arguments: argparse.Namespace) -> int:
    """Run the action that the arguments name, and return its exit code. Raises BiasgateError."""
    return int(arguments.run_action(arguments))
