"""The commands of `biasgate` with their usage, of the core and of every installed feature."""

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module

from gateway.cli import all_commands

WIDTH = 110


def write_listings() -> Mapping[str, str]:
    """Return a section for each command, with the summary and the usage of each of its actions."""
    return {"commands": "\n\n".join(f"## {name}\n\n```\n{_write_command(name)}\n```" for name in all_commands())}


def _write_command(name: str) -> str:
    command = all_commands()[name]
    parser = argparse.ArgumentParser(prog=f"biasgate {name}", formatter_class=_Formatter)
    import_module(command.module).add_arguments(parser)
    return "\n\n".join(
        f"{_write_usage(action)}\n    {summary}" for summary, action in _find_actions(parser, command.summary)
    )


_Formatter = partial(argparse.RawDescriptionHelpFormatter, width=10_000)


def _find_actions(parser: argparse.ArgumentParser, summary: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the summary and the parser of each action below a parser, or of the parser itself."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield summary, parser
    for group in groups:
        summaries = {action.dest: action.help for action in group._get_subactions()}
        for name, action in group.choices.items():
            yield from _find_actions(action, summaries.get(name) or summary)


def _write_usage(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = _Formatter
    usage = re.sub(r"\s+", " ", parser.format_usage()).removeprefix("usage: ").replace(" [-h]", "").strip()
    usage = re.sub(r"(--[\w-]+) (?![|])(\S*[^\s\]])(?=[\s\]])(?! \[\2)", r"\1=\2", usage)
    return textwrap.fill(usage, WIDTH, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
