"""The `biasgate` command: runs the module of the verb given, and prints a known error as one line."""

import argparse
import contextlib
import importlib
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from auditors.addresses import mask_addresses
from auditors.errors import BiasgateError
from auditors.text.visible import visible_line
from gateway.cli import all_commands, find_command
from gateway.errors import nearest
from gateway.terminal.guard import guarded_streams

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit code where the reader of what is printed has gone, as a shell reports it of other programs."""


class OneLineParser(argparse.ArgumentParser):
    """argparse, but a wrong call costs the user one line that says what to do."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {visible_line(message)}; see {self.prog} --help\n")

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        """As argparse's, which hides that the reader has gone. Raises BrokenPipeError."""
        (file or sys.stdout).write(self.format_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 on success, 1 when a check or gate fails, 2 on wrong usage or configuration."""
    with guarded_streams():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())  # noqa: T201 - the command line prints
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(f"biasgate {version('biasgate')}")  # noqa: T201 - the command line prints
        return 0
    name = arguments[0]
    command = find_command(name)
    if command is None:
        return _complain(f'unknown command "{name}"{nearest(name, set(all_commands()))}; see biasgate --help')
    module = importlib.import_module(command.module)
    parser = OneLineParser(
        prog=f"biasgate {name}",
        description=command.summary,
        epilog=module.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(arguments[1:])))
    except BiasgateError as exc:
        return _complain(str(exc))
    except KeyboardInterrupt:
        return 130


def command() -> NoReturn:
    """`main` in a process that keeps to itself, then its end."""
    harden()
    if sys.flags.ignore_environment:  # as the scripts of pipx have it: processes that this one starts have it alike
        os.environ.pop("PYTHONPATH", None)
    if not _is_checkout():
        # Processes that this one starts find our packages where they are installed, and do not take a file gateway.py
        # (or json.py) of the working directory for a module.
        os.environ["PYTHONSAFEPATH"] = "1"
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(CLOSED_PIPE)
    finally:
        if _close_broken_pipes():
            sys.exit(CLOSED_PIPE)


def _close_broken_pipes() -> bool:
    """Flush standard output and error; return whether a reader, such as head, is gone: the rest goes nowhere."""
    is_broken = False
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            is_broken = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return is_broken


def harden() -> None:
    """Files 0600 and directories 0700, whatever the umask was; no core dump, of this process or any that it starts. A
    limit of zero does not hold a kernel that pipes dumps into a program. There the filter leaves all memory out of what
    is piped; unlike PR_SET_DUMPABLE it outlives exec and hides nothing from the user's own tools.
    """
    os.umask(0o077)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # no Linux, or a read-only /proc
        Path("/proc/self/coredump_filter").write_text("0")


def _is_checkout() -> bool:
    try:
        return Path.cwd() == Path(__file__).parents[1]
    except FileNotFoundError:  # a directory that somebody has deleted
        return False


def _overview() -> str:
    commands = all_commands()
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {verb.summary}" for name, verb in commands.items()]
    return "\n".join(
        [
            "usage: biasgate COMMAND [options]",
            "",
            "A bias-audit gateway for served language models.",
            "",
            *lines,
            "",
            "biasgate help COMMAND says more, with an example. biasgate --version prints the version.",
        ]
    )


def _complain(message: str) -> int:
    print("biasgate: " + mask_addresses(" ".join(message.split())), file=sys.stderr)  # noqa: T201 - the command line prints
    return 2


if __name__ == "__main__":
    command()
