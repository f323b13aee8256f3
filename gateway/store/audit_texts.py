"""Texts that audits left with their numbers: redacted and sealed as the text of exchanges is, and gone with it."""

from collections.abc import Collection

import msgspec
import sqlalchemy as sa

from auditors.audit_texts import AuditText, changed
from gateway.privacy.texts import Texts
from gateway.store.database import Database
from gateway.store.tables import audit_texts

_decoder = msgspec.json.Decoder(AuditText)


class StoredText(msgspec.Struct, frozen=True):
    """A text as it lies in the store."""

    body: bytes
    is_sealed: bool


def entered(texts: Texts, text: AuditText) -> StoredText:
    """Return the form in which to store a text; processor time in proportion to it: not on the event loop."""
    redacted = text if texts.redactor is None else changed(text, texts.redactor.redacted)
    return StoredText(*texts.sealed(msgspec.json.encode(redacted)))


async def read(
    database: Database, ids: Collection[str], *, auditor: str | None = None
) -> dict[str, dict[str, AuditText]]:
    """Return the texts of these exchanges, or of a single auditor, as id to auditor to text, if a key opens them."""
    query = sa.select(audit_texts).where(audit_texts.c.exchange_id.in_(ids))
    if auditor is not None:
        query = query.where(audit_texts.c.auditor == auditor)
    texts_by_id: dict[str, dict[str, AuditText]] = {id_: {} for id_ in ids}
    for row in await database.fetch_rows(query):
        if body := database.texts.leave(row.body, is_sealed=row.is_sealed):
            texts_by_id[row.exchange_id][row.auditor] = _decoder.decode(body)
    return texts_by_id
