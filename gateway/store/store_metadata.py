"""Facts about a store: the salt of pseudonyms, a sealed value; `facts` keeps its name for rolling upgrades."""

import hashlib
import secrets

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreError
from gateway.privacy.encryption import MAKE_A_KEY, WrongKeyError
from gateway.privacy.texts import Texts
from gateway.store.connections import Connections, put_row, upsert
from gateway.store.tables import audit_texts, exchanges, facts

_SALT = "user_salt"
_SEAL = "seal"
_SEALED_FACT = b"biasgate"


async def user_salt(database: Connections) -> bytes:
    """Return the salt of `gateway.privacy.texts.user_digest`, which is drawn once for each store."""
    async with database.read() as connection:
        stored = await _get(connection, _SALT)
    if stored is not None:
        return stored
    async with database.begin() as connection:
        row = upsert(connection, facts).values(name=_SALT, value=secrets.token_bytes(16))
        await connection.execute(row.on_conflict_do_nothing())
        return await _get(connection, _SALT) or b""


def identity(salt: bytes) -> str:
    """Return an identity that differs between stores, also from a later store at the same address."""
    return hashlib.sha256(b"identity" + salt).hexdigest()[:16]


async def check_key(database: Connections, texts: Texts) -> None:
    """Use the first configured key from now on. Raises StoreError, in one line, if none opens this sealed store."""
    if not texts.has_lasting_key:
        return
    async with database.begin() as connection:
        stored = await _get(connection, _SEAL)
        if texts.cipher is None:
            await _require_unsealed(connection, database, stored)
            return
        if stored is not None:
            try:
                texts.cipher.open(stored)
            except WrongKeyError as exc:
                raise StoreError(
                    f"store {database.masked_url}: its text was sealed with another key than those in "
                    f"${texts.cipher.variable}: add the old key behind the new one, separated by a comma"
                ) from exc
        await put_row(connection, facts, {"name": _SEAL}, {"value": texts.cipher.seal(_SEALED_FACT)})


async def _require_unsealed(connection: AsyncConnection, database: Connections, stored: bytes | None) -> None:
    """Accept a configuration without a key once no sealed text is left. Raises StoreError otherwise."""
    if stored is None:
        return
    bodies = sa.select(exchanges.c.id).where(exchanges.c.is_sealed, exchanges.c.request_body.is_not(None))
    reasons = sa.select(audit_texts.c.exchange_id).where(audit_texts.c.is_sealed)
    if (await connection.execute(sa.union_all(bodies, reasons).limit(1))).first() is not None:
        raise StoreError(
            f"store {database.masked_url}: holds sealed text, but store.encryption_key_env names no key: name the "
            f"variable with its key (a new store's key: {MAKE_A_KEY})"
        )
    await connection.execute(sa.delete(facts).where(facts.c.name == _SEAL))


async def _get(connection: AsyncConnection, name: str) -> bytes | None:
    value = (await connection.execute(sa.select(facts.c.value).where(facts.c.name == name))).scalar()
    return None if value is None else bytes(value)
