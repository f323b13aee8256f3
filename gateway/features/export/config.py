"""The section `[export]` of the configuration."""

from typing import Annotated

from msgspec import Meta

from auditors.addresses import mask_url
from gateway.config.schema import Config, Section
from gateway.config.sections import FeatureSection
from gateway.errors import ConfigError


class ExportConfig(Section, frozen=True):
    """Measurements and runs as Parquet files (docs/operations.md)."""

    url: str | None = None
    """Directory or fsspec address, without password; unset: no export."""
    every_hours: Annotated[float, Meta(ge=1 / 60)] = 1.0
    """Pause between exports."""


def check_export(config: Config) -> None:
    """Raise ConfigError for an address without text, or an address that holds credentials."""
    address = EXPORT.of(config).url
    if address is None:
        return
    if not address.strip():
        raise ConfigError("export.url is empty: name a directory or an address, or leave it out")
    scheme, _, rest = address.partition("://")
    user, has_user, _ = rest.partition("/")[0].rpartition("@")
    # In abfs://CONTAINER@ACCOUNT.dfs.core.windows.net the part before the @ names a container.
    if has_user and (":" in user or scheme not in ("abfs", "abfss")):
        raise ConfigError(
            f'export.url "{mask_url(address)}" names a user: leave the credentials to the environment of the auditor, '
            "as fsspec and its stores read them"
        )


EXPORT = FeatureSection("export", ExportConfig, ExportConfig(), is_read_by_auditor=True)
