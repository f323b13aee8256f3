"""Stored scores with the exchanges that they are of, as tests look at them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from auditors.types import Exchange
from gateway.store import exchange_search
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria, Score


class Scored(NamedTuple):
    """A score of an exchange."""

    exchange: Exchange
    score: Score

    def __getattr__(self, name: str) -> Any:
        return getattr(self.score, name)


async def scores_of(
    database: Database, *, auditor: str | None = None, exchange_ids: Sequence[str] | None = None, limit: int = 100
) -> list[Scored]:
    """Scores, those of the newest exchange first."""
    criteria = Criteria(auditor=auditor, exchange_ids=exchange_ids)
    found = (await exchange_search.search(database, criteria, limit=limit)).rows
    return [Scored(one.exchange, one.score) for one in found if one.score is not None]
