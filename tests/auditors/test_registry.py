"""The table of live auditors and how each is built."""

import pytest

from auditors.clients.completion import HttpCompleter
from auditors.registry import AUDITORS, build
from auditors.types import Auditor, Exchange, Servers
from gateway.config.schema import AuditorConfig, AuditorsConfig
from tests.auditors.test_embedding import PlantedEmbedder


def nobody(exchange: Exchange) -> HttpCompleter:
    raise AssertionError(f"{exchange.upstream} was asked")


class TestAuditors:
    @pytest.mark.parametrize("name", AUDITORS)
    def test_each_is_an_auditor_with_its_own_section(self, name: str) -> None:
        """Every entry point builds under its own name from its section of the configuration."""
        servers = Servers(completer_for=nobody, embedder=PlantedEmbedder(), decider_for=nobody)
        auditor = build(name, AuditorConfig(), servers)

        assert isinstance(auditor, Auditor)
        assert (auditor.name, type(auditor).__name__) == (name, AUDITORS[name].__name__)
        assert isinstance(getattr(AuditorsConfig(), name), AuditorConfig)

    def test_what_is_missing_is_named(self) -> None:
        """The message lists the known names, or says what the auditor needs."""
        with pytest.raises(ValueError, match='"astrology" is not an auditor; known: affinity, counterfactual'):
            build("astrology", AuditorConfig(), Servers(completer_for=nobody))
        with pytest.raises(ValueError, match="needs an embedder"):
            build("embedding", AuditorConfig(), Servers(completer_for=nobody))
