"""Links of raters: each opens one labelling project to one rater. The store keeps a digest, never the token itself."""

import hashlib
import secrets
import time
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from gateway.errors import NotFoundError
from gateway.features.labelling.projects import require
from gateway.invitations import PREFIX
from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.tables import rater_links

TOKEN_BYTES = 24


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """One rater's link. Times are Unix seconds."""

    project: str
    rater: str
    created_at: float
    expires_at: float | None
    """Time at which the link expires; None for a link that holds until it is revoked."""


async def invite(
    database: Database, project: str, raters: Sequence[str], *, expires_at: float | None = None
) -> dict[str, str]:
    """Return a new link's token by rater, in place of older links; it is not stored. Raises NotFoundError."""
    tokens = {rater: PREFIX + secrets.token_urlsafe(TOKEN_BYTES) for rater in raters}
    now = time.time()
    async with database.begin() as connection:
        await require(connection, project, locked=True)
        for rater, token in tokens.items():
            values = {"digest": _digest(token), "created_at": now, "expires_at": expires_at}
            await put_row(connection, rater_links, {"project": project, "rater": rater}, values)
    return tokens


async def revoke(database: Database, project: str, raters: Sequence[str]) -> None:
    """Delete the links of these raters, all or none; labels stay. Raises NotFoundError for a project or a link."""
    columns = rater_links.c
    async with database.begin() as connection:
        await require(connection, project, locked=True)
        for rater in raters:
            gone = sa.delete(rater_links).where(columns.project == project, columns.rater == rater)
            if not (await connection.execute(gone)).rowcount:
                raise NotFoundError(f'"{rater}" has no link for "{project}": annotate invite {project} lists them')


async def list_invitations(database: Database, project: str) -> list[Invitation]:
    """Return the links of a project by rater, those that have expired too. Raises NotFoundError."""
    async with database.read() as connection:
        await require(connection, project)
        query = _invitations().where(rater_links.c.project == project).order_by(rater_links.c.rater)
        return [Invitation(**row._mapping) for row in await connection.execute(query)]


class StoredInvitations:
    """The links of a store, for the guard of a control plane."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, token: str) -> Invitation | None:
        """Return the invitation that a token stands for; None for a token that is unknown, revoked or expired."""
        row = await self._database.fetch_row(_invitations().where(rater_links.c.digest == _digest(token)))
        invitation = None if row is None else Invitation(**row._mapping)
        if invitation is None or (invitation.expires_at is not None and invitation.expires_at <= time.time()):
            return None
        return invitation

    async def any_exists(self) -> bool:
        return await self._database.fetch_row(sa.select(rater_links.c.rater).limit(1)) is not None


def _invitations() -> "sa.Select[tuple[str, str, float, float | None]]":
    columns = rater_links.c
    return sa.select(columns.project, columns.rater, columns.created_at, columns.expires_at)


def _digest(token: str) -> str:
    """Return the token's SHA-256: a token has 192 random bits, so it cannot be guessed from its digest."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
