"""`biasgate audit verify`: says whether a bundle is as it was signed."""

import argparse
from pathlib import Path

from auditors.text.visible import visible_line
from gateway.features.bundles.archive import ArchiveError
from gateway.features.bundles.signing import read_public_key
from gateway.features.bundles.verification import verify

HELP = """\
Reads the file once, without a network. Exit codes: 0 every file is as signed by a key given, 1 something was changed or
the signature is wrong, 3 not signed, 4 signed by a key that was not given; 2 wrong usage, as always.

Example:
  biasgate audit verify first.bundle --key PUBLIC.pem
"""

CHANGED, UNSIGNED, UNKNOWN_KEY = 1, 3, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="FILE", help="what audit bundle wrote")
    words = "public Ed25519 key in PEM of an accepted signer; may be given several times"
    parser.add_argument("--key", type=Path, action="append", default=[], metavar="PUBLIC", help=words)


def run(arguments: argparse.Namespace) -> int:
    keys = [read_public_key(path) for path in arguments.key]
    if not arguments.bundle.is_file():
        raise ArchiveError(f"{arguments.bundle}: no such file")
    try:
        verification = verify(arguments.bundle, keys)
    except ArchiveError as exc:
        print(visible_line(f"FAIL  {exc}"))
        return CHANGED
    for line in verification.failures:
        print(visible_line(f"FAIL  {line}"))
    if verification.failures:
        return CHANGED
    run = {} if verification.statement is None else verification.statement.predicate.run
    named = (f"{name} {_plain(run[name])}" for name in ("suite", "suite_version", "model", "finished") if run.get(name))
    about = ", ".join(named) or "of no run that it names"
    print(f"ok    {verification.n_files} files match the statement: {about}")
    match verification.signed:
        case "none":
            print("FAIL  not signed: anyone could have made it")
            return UNSIGNED
        case "unknown key":
            what = "it is not one of those given" if keys else "name its public key with --key"
            print(f"FAIL  signed by the key {_plain(verification.signer)}: {what}")
            return UNKNOWN_KEY
        case _:
            print(f"ok    signed by the key {_plain(verification.signer)}")
            return 0


def _plain(text: object) -> str:
    """Makes a text from another person's file fit for a terminal, cut to 100 characters."""
    return visible_line(str(text)[:100])
