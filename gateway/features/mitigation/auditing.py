"""The part of the policies in an auditor: the two arms of each policy, compared on what is measured."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.types import Exchange
from gateway.auditor.part import AuditorPart
from gateway.features.mitigation import store
from gateway.streams.recording import Measured


class ArmsPart(AuditorPart):
    """The part of the policies in one auditor."""

    def needs_quality(self, exchange: Exchange) -> bool:
        return store.compares(exchange)

    async def recorded(self, connection: AsyncConnection, audits: Sequence[Measured]) -> None:
        await store.update(connection, audits)
