"""Example: `biasgate config check --config biasgate.toml`."""

import argparse
import json
from pathlib import Path

from gateway.config_file import load
from gateway.effective import effective, unset_secrets
from gateway.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser(
        "check",
        help="validate, resolve secrets, print the effective configuration",
        epilog="Example: `biasgate config check --config biasgate.toml`.",
    )
    check.add_argument("--config", type=Path, help="TOML file (default: ./biasgate.toml when present)")


def run(arguments: argparse.Namespace) -> int:
    config = load(arguments.config)
    if missing := unset_secrets(config):
        raise ConfigError(f"environment variables named in the configuration but not set: {', '.join(missing)}")
    print(json.dumps(effective(config), indent=2))
    return 0
