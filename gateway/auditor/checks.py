"""Finds what would keep an auditor from starting, without server or model; imports large modules only when needed."""

from collections.abc import Mapping

from auditors.clients.embedder_packages import EmbedderError, require_packages
from auditors.identities import identities_of
from auditors.text.thinking import parse_thinking
from gateway.config.schema import AuditorConfig, Config
from gateway.errors import ConfigError


def require_auditable(config: Config) -> None:
    """Raises ConfigError, in one line, for settings that an auditor refuses at its start."""
    enabled = {name: section for name, section in config.auditors.sections.items() if section.enabled}
    require_sections(config, enabled)
    _require_embedder(config, enabled)
    if config.audits.schedules or config.audits.on_model_change:
        from gateway.auditor.scheduling import configured

        configured(config)


def require_sections(config: Config, enabled: Mapping[str, AuditorConfig]) -> None:
    """Raises ConfigError for a section of [auditors] that names no auditor, or whose keys do not go together."""
    if plugin_names := enabled.keys() & config.auditors.plugins.keys():
        from auditors.registry import AUDITORS

        for name in plugin_names - AUDITORS.keys():
            raise ConfigError(f"auditors.plugins.{name}: no installed distribution brings an auditor of that name")
    for name, section in enabled.items():
        try:
            parse_thinking(section.thinking or "default")
            identities_of(section)
        except ValueError as exc:
            raise ConfigError(f"auditors.{name}: {exc}") from None
    embedding = config.auditors.embedding
    if embedding.base_url is not None and embedding.model is None and _compare_texts(enabled):
        raise ConfigError("auditors.embedding.base_url is set but model is not: name the embedding model")
    if embedding.base_url is not None and embedding.backend != "torch":
        raise ConfigError(
            f'auditors.embedding.backend is "{embedding.backend}", but the embedder is served at base_url: leave '
            "out one of them"
        )


def _require_embedder(config: Config, enabled: Mapping[str, AuditorConfig]) -> None:
    embedding = config.auditors.embedding
    if embedding.base_url is not None:
        return
    try:
        require_packages(embedding.model or "minilm", embedding.backend)
    except EmbedderError as exc:
        if _compare_texts(enabled):
            raise ConfigError(
                f"auditors.embedding: {exc}; or name a server in auditors.embedding.base_url, or switch off the "
                "auditors that compare texts (auditors.embedding.enabled = false)"
            ) from exc


def _compare_texts(enabled: Mapping[str, AuditorConfig]) -> bool:
    from auditors.registry import need_embedder

    return need_embedder(enabled)
