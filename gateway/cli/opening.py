"""The store of a command, as --store and --config name it."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.config.loading import load, validate
from gateway.config.schema import Config
from gateway.errors import GatewayError
from gateway.privacy.texts import texts_of
from gateway.store.database import Database

DEFAULT = "labels.db"


def config_of(arguments: argparse.Namespace) -> Config:
    """Raises GatewayError when both are given, ConfigError as `load`."""
    if arguments.store is not None and arguments.config is not None:
        raise GatewayError("--store and --config exclude one another: a configuration names a store")
    if arguments.config is not None:
        return load(Path(arguments.config))
    store = arguments.store or DEFAULT
    return validate({"store": {"url": store if "://" in store else f"sqlite:///{store}"}})


def require_there(config: Config) -> None:
    """Raises GatewayError where the default file has not been made yet."""
    if config.store.url == f"sqlite:///{DEFAULT}" and not Path(DEFAULT).is_file():
        raise GatewayError(f"{DEFAULT}: no such file here: annotate import DIR makes it, or name another with --store")


def is_own_file(arguments: argparse.Namespace, config: Config) -> bool:
    """Return whether the store is a file of these commands, which they upgrade: no gateway runs on it."""
    return arguments.config is None and Path(config.store.url.removeprefix("sqlite:///")).is_file()


@asynccontextmanager
async def opened(arguments: argparse.Namespace, *, create: bool = False) -> AsyncIterator[Database]:
    """Open until the block ends; a file that does not exist is made only if `create`. Raises StoreError."""
    config = config_of(arguments)
    if not create:
        require_there(config)
    migrate = create or is_own_file(arguments, config)
    async with await Database.open(config.store.url, migrate=migrate, texts=texts_of(config)) as database:
        yield database
