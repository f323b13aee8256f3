"""How many words an answer has. An example of a live auditor in a wheel of its own."""

from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import read_conversation
from auditors.types import AsksUpstream, AuditFailure, AuditorSettings, Exchange, Measurement, Servers


class WordsAuditor:
    name, version, needs_embedder = "words", "1", False
    asks_upstream: AsksUpstream = "never"

    @classmethod
    def built(cls, settings: AuditorSettings, servers: Servers) -> "WordsAuditor":
        return cls()

    async def audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        try:
            words = len(read_conversation(exchange).reply_text.split())
        except NotAuditableError as exc:
            return AuditFailure(auditor="words", auditor_version="1", kind="not_auditable", message=str(exc))
        return [Measurement(auditor="words", auditor_version="1", metric="words", axis=None, value=float(words))]
