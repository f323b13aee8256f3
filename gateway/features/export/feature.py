"""The feature `export`: measurements and runs as Parquet files at an address."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.config.sections import FeatureSection
from gateway.feature import Command, Feature
from gateway.features.export.config import EXPORT, check_export

if TYPE_CHECKING:
    from gateway.auditor.part import AuditorContext, AuditorPart
    from gateway.config.schema import Config
    from gateway.store.database import Database

SHOWN_SECONDS = 900.0
"""Seconds after its last try for which a failed export is shown."""


class Export(Feature):
    """See docs/operations.md."""

    name = "export"

    def sections(self) -> Sequence[FeatureSection[Any]]:
        return [EXPORT]

    def check_sections(self, config: "Config") -> None:
        check_export(config)

    def commands(self) -> Mapping[str, Command]:
        summary = "write measurements and runs as Parquet files, as far as they are new"
        return {"export": Command("gateway.features.export.cli", summary)}

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

    def auditor_part(self, context: "AuditorContext") -> "AuditorPart":
        from gateway.features.export.auditing import ExportPart

        return ExportPart(context)

    async def problems(self, database: "Database") -> Sequence[str]:
        from gateway.features.export import store

        failing = await store.read_failing(database, tried_after=time.time() - SHOWN_SECONDS)
        return [progress.error or "" for progress in failing]
