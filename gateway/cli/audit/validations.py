"""Finds the comparison of a judge with people that `--judge-validation` names: a file, or an entry of a store."""

import argparse
import asyncio
from pathlib import Path

from auditors.judge_validation import Validation
from benchmarks.run import judge
from gateway.errors import GatewayError


def add_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--judge-validation",
        metavar="FILE|sha256:DIGEST",
        help="what judge calibrate --out wrote about the judge, or --keep kept",
    )
    group.add_argument("--store", metavar="FILE", help="where sha256:DIGEST is kept: a file or a PostgreSQL URL")
    group.add_argument("--config", metavar="FILE", help="take the store of this configuration instead")


def find(arguments: argparse.Namespace) -> Validation | None:
    """Finds the named validation; None without a name. Raises BenchmarkError, NotFoundError or GatewayError."""
    named = arguments.judge_validation
    if named is None:
        return None
    # A store takes a quarter of a second to import, and most commands need none.
    from gateway.cli.opening import opened
    from gateway.store import calibrations, judge_passes
    from gateway.store.calibrations import BY_DIGEST

    if not named.startswith(BY_DIGEST):
        return judge.read(Path(named))
    if arguments.store is None and arguments.config is None:
        raise GatewayError(f'--judge-validation "{named}" needs --store FILE or --config FILE, where it is kept')

    async def kept() -> Validation:
        async with opened(arguments) as database:
            stored = await calibrations.get(database, named.removeprefix(BY_DIGEST))
            return await judge_passes.as_of_now(database, stored)

    return asyncio.run(kept())
