"""`biasgate completion`: writes the script with which a shell completes commands, options and choices."""

import argparse
from pathlib import Path

from gateway.cli import all_commands
from gateway.cli.actions import add_actions
from gateway.errors import GatewayError

HELP = """\
Write the script again after an upgrade: it has the commands that are installed now.

Example:
  biasgate completion bash > ~/.local/share/bash-completion/completions/biasgate
  biasgate completion zsh > ~/.zfunc/_biasgate
  biasgate completion fish > ~/.config/fish/completions/biasgate.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as exc:
        raise GatewayError('shtab is not installed: pip install "biasgate[completion]"') from exc
    parser = argparse.ArgumentParser(prog="biasgate")
    add_actions(parser.add_subparsers(), all_commands())
    _complete_paths(parser, shtab.FILE)
    print(shtab.complete(parser, arguments.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser, completer: object) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                _complete_paths(nested, completer)
        elif action.type is Path or action.dest in ("config", "store"):
            action.complete = completer  # type: ignore[attr-defined]  # the attribute is shtab's
