"""The `biasgate` command, and `python -m biasgate`."""

import sys
from typing import NoReturn

from biasgate.shadowing import complaint


def command() -> NoReturn:
    """Ends with 2 and one line when files of other people would be imported in place of ours; otherwise runs."""
    if line := complaint():
        sys.stderr.write(f"biasgate: {line}\n")
        sys.exit(2)
    from gateway.__main__ import command as run  # not before the check: it may be somebody else's file

    run()


if __name__ == "__main__":
    command()
