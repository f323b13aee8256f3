"""`biasgate config check`: refuses what cannot be served, or prints it with every default filled in and a verdict."""

import argparse
import json
import sys
import typing
from pathlib import Path

from auditors.addresses import mask_url
from gateway.config.effective import effective
from gateway.config.loading import load
from gateway.processes.usable import NOT_CHECKED, Role, require_usable

HELP = "Example: `biasgate config check --config biasgate.toml`."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser(
        "check",
        help="refuse what serve refuses, and print the effective configuration",
        epilog="Example: `biasgate config check --config biasgate.toml`.",
    )
    check.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")
    check.add_argument(
        "--role",
        choices=typing.get_args(Role),
        default="serve",
        help="command that is to run by it: its environment variables, packages and directories (default: serve)",
    )


def run(arguments: argparse.Namespace) -> int:
    config = load(arguments.config)
    require_usable(config, arguments.role)
    print(f"biasgate: {NOT_CHECKED}", file=sys.stderr)
    print(json.dumps(effective(config), indent=2), flush=True)
    enabled = ", ".join(name for name, section in config.auditors.sections.items() if section.enabled) or "none"
    for upstream in config.upstreams:
        print(f"biasgate: upstream {upstream.name} is asked at {mask_url(upstream.origin)}/v1/...", file=sys.stderr)
    served = f"upstreams: {len(config.upstreams)}, sampling rate {config.sampling.rate:g}, auditors: {enabled}"
    print(f"biasgate: OK: biasgate {arguments.role} accepts this configuration: {served}", file=sys.stderr)
    return 0
