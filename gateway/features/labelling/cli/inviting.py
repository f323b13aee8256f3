"""`biasgate annotate invite`: makes, lists and revokes the links by which raters enter a project."""

import argparse
import asyncio
import sys
import time
from urllib.parse import quote, urlsplit

from gateway.cli.opening import config_of, opened
from gateway.errors import GatewayError
from gateway.features.labelling import invitations
from gateway.features.labelling.raters import LABELLING_PAGE
from gateway.processes.listening import root_url
from gateway.store.database import Database

HELP = """\
Each rater gets a personal link, which opens one project under one name: the rater's next task and the rater's own
labels, and nothing else. A link is printed once; the store keeps a digest. A new link of a rater replaces the old one.
Without --rater, the existing links are listed.

Example:
  biasgate annotate invite essays --rater ann --rater bo
  biasgate annotate invite essays --rater ann --days 14 --address https://labels.example.org
  biasgate annotate invite essays --rater bo --revoke
"""

SERVED_AT = "http://127.0.0.1:8081"
"""Default address of `annotate serve`."""
LONGEST_NAME = 100
MOST_DAYS = 3650.0
DAY_SECONDS = 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", metavar="PROJECT", help="name of the project")
    parser.add_argument("--rater", action="append", default=[], metavar="NAME", help="who is invited; may be repeated")
    parser.add_argument("--days", type=float, metavar="N", help="days that the links hold (default: until revoked)")
    parser.add_argument("--revoke", action="store_true", help="end the links of these raters; their labels stay")
    parser.add_argument(
        "--address", metavar="URL", help=f"how raters reach the page (default {SERVED_AT}, or the gateway's address)"
    )


def run(arguments: argparse.Namespace) -> int:
    raters = [_checked_name(rater) for rater in dict.fromkeys(arguments.rater)]
    if arguments.revoke and not raters:
        raise GatewayError("--revoke needs --rater NAME: say whose link ends")
    if arguments.days is not None and not 0 < arguments.days <= MOST_DAYS:
        raise GatewayError(f"--days takes a number above 0 and up to {MOST_DAYS:g}, not {arguments.days:g}")
    return asyncio.run(_run(arguments, raters))


async def _run(arguments: argparse.Namespace, raters: list[str]) -> int:
    async with opened(arguments) as database:
        if arguments.revoke:
            await invitations.revoke(database, arguments.project, raters)
            print(f"{arguments.project}: the link of {', '.join(raters)} opens nothing any more; labels stay")
        elif raters:
            address = _address(arguments)
            expires_at = None if arguments.days is None else time.time() + arguments.days * DAY_SECONDS
            tokens = await invitations.invite(database, arguments.project, raters, expires_at=expires_at)
            for rater, token in tokens.items():
                print(f"{rater}: {address}{LABELLING_PAGE}#key={token}")
            print(
                "each link is shown this once: send it to its rater, who needs no other key; where raters reach the "
                "page by another address, give --address URL",
                file=sys.stderr,
            )
            _warn_of_an_open_gateway(arguments)
        else:
            await _list(database, arguments.project)
    return 0


async def _list(database: Database, project: str) -> None:
    links = await invitations.list_invitations(database, project)
    for link in links:
        print(f"{link.rater}: since {_day(link.created_at)}, {_end(link.expires_at)}")
    if not links:
        print(f"{project}: no rater has a link: annotate invite {project} --rater NAME makes one")


def _end(expires_at: float | None) -> str:
    if expires_at is None:
        return "until it is revoked"
    return f"{'expired on' if expires_at <= time.time() else 'until'} {_day(expires_at)}"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _checked_name(rater: str) -> str:
    name = rater.strip()
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable() or "/" in name:
        raise GatewayError(
            f"--rater takes a name of 1 to {LONGEST_NAME} printable characters without a slash, not {rater[:120]!r}"
        )
    return name


def _address(arguments: argparse.Namespace) -> str:
    if arguments.address is not None:
        parts = urlsplit(arguments.address)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise GatewayError(f'--address "{arguments.address}" is not a server address: give http(s)://HOST[:PORT]')
        return quote(arguments.address.rstrip("/"), safe=":/%[]@")
    if arguments.config is None:
        return SERVED_AT
    server = config_of(arguments).server
    return root_url(server.host, server.port)


def _warn_of_an_open_gateway(arguments: argparse.Namespace) -> None:
    if arguments.config is None:
        return
    server = config_of(arguments).server
    if not (server.admin_key_env or server.control_keys):
        print(
            f"{arguments.config}: the gateway has no control key, so any client that reaches it may read every label: "
            "set server.admin_key_env",
            file=sys.stderr,
        )
