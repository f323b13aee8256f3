"""Reads the prompts of stored exchanges: those that name an identity, and ordinary prompts for comparison."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from auditors.metrics.weighting import bounded_weight
from auditors.probes import last_user
from auditors.streams.sender_weights import counted_probability, next_largest
from auditors.text.conversation import NotAuditableError
from auditors.text.identity import groups_mentioned, mentions_identity
from auditors.text.readers.exchange import read_conversation
from auditors.text.refusals.languages import NONE, language_of
from gateway.features.coverage.questions import LONGEST, shortened
from gateway.features.coverage.store import Asked
from gateway.features.coverage.traffic import Prompt

MOST = 2_000
"""Prompts that name an identity, the newest."""
MOST_ORDINARY = 300
MOST_READ = 20_000
"""Exchanges that are looked at for them."""
SEARCHED = 20_000
"""Characters of a prompt in which an identity is looked for."""


class Prompts:
    """Collects prompts, newest first, weighted as in streams (`sender_weights`); counts those left out by reason."""

    def __init__(self, max_weight_share: float = 0.05) -> None:
        self._share = max_weight_share
        self._largest_weight = 1.0
        self.naming: list[Prompt] = []
        self.ordinary: list[Prompt] = []
        self.excluded = Counter[str]()
        self.n_read = 0
        self.n_cut = 0
        self.since: float | None = None

    @property
    def is_full(self) -> bool:
        return len(self.naming) >= MOST or self.n_read >= MOST_READ

    @property
    def counts(self) -> dict[str, Any]:
        """Fields of `Coverage` about what was read."""
        return {"since": self.since, "n_read": self.n_read, "excluded": dict(self.excluded), "n_cut": self.n_cut}

    def read(self, entries: Sequence[Asked]) -> None:
        """Takes what it can use, until it is full. Takes processor time: for a thread."""
        for entry in entries:
            if self.is_full:
                return
            self.n_read += 1
            self.since = entry.exchange.received_at
            why = self._left_out(entry)
            if why is not None:
                self.excluded[why] += 1

    def _left_out(self, entry: Asked) -> str | None:
        """Why; None where it is among those that name an identity."""
        exchange = entry.exchange
        if exchange.known_probability is None or exchange.sender_rate is None:
            return "unknown_probability"
        try:
            conversation = read_conversation(exchange)
        except NotAuditableError:
            return "not_readable"
        place = last_user(conversation)
        whole = conversation.messages[place].text if place >= 0 else ""
        text = shortened(whole)
        if not text:
            return "no_prompt"
        if language_of(text) not in ("en", NONE):
            return "other_language"
        axes = tuple(dict.fromkeys(axis for axis, _ in groups_mentioned(whole[:SEARCHED])))
        counted = counted_probability(exchange.known_probability, exchange.sender_rate, self._largest_weight)
        self._largest_weight = next_largest(self._largest_weight, exchange.sender_rate, self._share)
        prompt = Prompt(
            exchange_id=exchange.id,
            text=text,
            axes=axes,
            weight=bounded_weight(counted, exchange.rate_factor),
            sender=entry.user,
            key=exchange.key_name,
        )
        if not axes:
            if mentions_identity(exchange.request_body[:SEARCHED]):
                return "identity_named_elsewhere"
            if len(self.ordinary) < MOST_ORDINARY:
                self.ordinary.append(prompt)
            return "names_no_identity"
        self.n_cut += len(whole.strip()) > LONGEST
        self.naming.append(prompt)
        return None
