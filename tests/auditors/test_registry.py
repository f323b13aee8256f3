"""The table of live auditors and how each is built."""

import pytest

from auditors.clients.completion import HttpCompleter
from auditors.registry import AUDITORS, build
from auditors.types import Auditor, Completer, Exchange, Servers
from gateway.config.schema import AuditorConfig, AuditorsConfig
from tests.auditors.test_embedding import PlantedEmbedder
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.scripted import chat, scripted_server


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

    def test_an_unknown_name(self) -> None:
        """The message lists the known names."""
        with pytest.raises(ValueError, match='"astrology" is not an auditor; known: affinity, counterfactual'):
            build("astrology", AuditorConfig(), Servers(completer_for=nobody))

    def test_a_missing_embedder(self) -> None:
        """The embedding auditor says what it needs."""
        with pytest.raises(ValueError, match="needs an embedder"):
            build("embedding", AuditorConfig(), Servers(completer_for=nobody))


class TestWhoIsAsked:
    async def test_an_outside_judge(self) -> None:
        """With a judge given, the served model is not asked to judge."""
        async with scripted_server(lambda _: chat('{"refused": false, "findings": []}')) as server:
            judge = HttpCompleter(server.base_url)
            auditor = build("judge", AuditorConfig(model="j"), Servers(completer_for=nobody, judge=judge))
            await auditor.audit(chat_exchange("Are men better?", "No."))
            await judge.aclose()

        assert [asked.json["model"] for asked in server.asked] == ["j"]

    async def test_the_upstream_of_the_exchange(self) -> None:
        """Without one, whoever served the exchange is asked, chosen by the exchange."""
        chosen: list[str] = []
        async with scripted_server(lambda _: chat('{"refused": false, "findings": []}')) as server:
            served = HttpCompleter(server.base_url)

            def completer_for(exchange: Exchange) -> Completer:
                chosen.append(exchange.upstream)
                return served

            await build("judge", AuditorConfig(), Servers(completer_for=completer_for)).audit(
                chat_exchange("Are men?", "No.")
            )
            await served.aclose()

        assert (chosen, [asked.json["model"] for asked in server.asked]) == (["one"], ["served"])
