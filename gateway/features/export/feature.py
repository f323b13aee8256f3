"""The feature `export`: measurements and runs as Parquet files at an address."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature
from gateway.features.export.config import EXPORT, check_export

if TYPE_CHECKING:
    from gateway.config.schema import Config
    from gateway.store.database import Database

SHOWN_SECONDS = 900.0
"""Seconds after its last try for which a failed export is shown."""


class Export(Feature):
    """See docs/operations.md."""

    name = "export"
    sections = (EXPORT,)
    commands = {
        "export": Command(
            "gateway.features.export.cli", "write measurements and runs as Parquet files, as far as they are new"
        )
    }
    auditor_part = "gateway.features.export.auditing:ExportPart"

    def check_sections(self, config: "Config") -> None:
        check_export(config)

    def check(self, config: "Config") -> None:
        if (url := EXPORT.of(config).url) is not None:
            from gateway.features.export.address import require_installed

            require_installed(url)

    def environment(self, config: "Config") -> frozenset[str]:
        url = EXPORT.of(config).url
        if url is None:
            return frozenset()
        from gateway.features.export.address import environment_variables_of

        return environment_variables_of(url)

    async def problems(self, database: "Database") -> Sequence[str]:
        from gateway.features.export import store

        failing = await store.read_failing(database, tried_after=time.time() - SHOWN_SECONDS)
        return [progress.error or "" for progress in failing]
