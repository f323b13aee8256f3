"""`biasgate audit bundle`: packs a finished run into one file, with a statement about every file in it."""

import argparse
from pathlib import Path

from auditors.text.visible import visible_line
from benchmarks.bundles import building, run_directory
from benchmarks.bundles.signing import MAKE_A_KEY, read_private_key

HELP = f"""\
The bundle holds result, items, replies, options, report, versions, labels that are given, a page that says which
numbers bear on which clause, and a statement with the hash of each. Sign it, or anybody could have made it.

Example:
  {MAKE_A_KEY}
  openssl pkey -in KEY.pem -pubout -out PUBLIC.pem
  biasgate audit bundle runs/first --out first.bundle --sign-key KEY.pem
  biasgate audit verify first.bundle --key PUBLIC.pem
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of one finished run")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where to write the bundle")
    parser.add_argument("--sign-key", type=Path, metavar="FILE", help="private Ed25519 key in PEM (default: unsigned)")
    parser.add_argument(
        "--labels",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="people's labels, or what judge calibrate --out wrote; may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    key = arguments.sign_key and read_private_key(arguments.sign_key)
    contents = run_directory.contents(arguments.directory, arguments.labels)
    building.write_to(arguments.out, contents, key)
    signed = "signed" if key else "not signed (--sign-key)"
    print(visible_line(f"{arguments.out}: {len(contents.files)} files of {contents.result['suite']}, {signed}"))
    for name, reason in sorted(contents.absent.items()):
        print(visible_line(f"without {name}: {reason}"))
    return 0
