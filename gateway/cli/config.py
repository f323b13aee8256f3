"""`biasgate config check`: validates a configuration and prints it with every default filled in."""

import argparse
import json
from pathlib import Path

from gateway.config.effective import effective, unset_secrets
from gateway.config.loading import load
from gateway.errors import ConfigError

HELP = "Example: `biasgate config check --config biasgate.toml`."


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
