"""Calibrations of judges, never changed. The newest of (model, question, thinking) counts; results name digests."""

import hashlib
import re
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from auditors.judge_validation import Validation, decoded
from auditors.structs import combine
from auditors.text.thinking import OFF, parse_thinking
from gateway.errors import NotFoundError, RequestError
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import judge_calibrations, streams
from gateway.turns import in_turns

AUDITOR, METRIC = "judge", "favoritism"
"""The auditor and metric whose scores people can give in the same scale."""
LARGEST_BYTES = 1024 * 1024
LONGEST_NAME = 200
BY_DIGEST = "sha256:"
"""Prefix that names a calibration by its digest, in a place that could name a file."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The listed facts of a calibration. Times are Unix seconds."""

    digest: str
    """sha256 of the file, which is its id."""
    judge_model: str
    prompt_sha256: str
    thinking: str
    n: int
    kappa: float | None
    created_at: float
    fault: str | None
    """Why it validates no judge; null when it does."""
    superseded_by: str | None
    """Digest of the newest one of the same judge; null where this is it."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One with all that it says."""

    digest: str
    created_at: float
    validation: Validation


async def keep(database: Database, content: bytes) -> Kept:
    """Store a comparison, once. Raises RequestError for what is not a comparison, or of an unknown judge."""
    if len(content) > LARGEST_BYTES:
        raise RequestError(f"a calibration has {LARGEST_BYTES} bytes at most, not {len(content)}")
    try:
        validation = decoded(content)
    except ValueError as exc:
        raise RequestError(str(exc)) from exc
    _require_judge(validation)
    digest = hashlib.sha256(content).hexdigest()
    row = {
        "digest": digest,
        "judge_model": validation.judge_model,
        "prompt_sha256": validation.prompt_sha256,
        "thinking": validation.thinking,
        "content": content.decode(),
        "created_at": time.time(),
    }
    async with database.begin() as connection:
        await connection.execute(upsert(connection, judge_calibrations).values(row).on_conflict_do_nothing())
    return await get(database, digest)


def written(fields: dict[str, Any]) -> bytes:
    """Return the text as `judge calibrate --out` writes it, so that fields sent from it have the same digest."""
    return msgspec.json.format(msgspec.json.encode(fields), indent=1) + b"\n"


async def get(database: Database, digest: str) -> Kept:
    """Return a calibration by the beginning of its digest. Raises NotFoundError; RequestError for several."""
    if not re.fullmatch(r"[0-9a-f]{1,64}", digest):
        raise NotFoundError(f'"{digest[:70]}" is not a digest: GET /judges/calibrations lists them')
    columns = judge_calibrations.c
    query = sa.select(judge_calibrations).where(columns.digest.startswith(digest, autoescape=True)).limit(2)
    matches = [_read_row(row) for row in await database.fetch_rows(query)]
    if not matches:
        raise NotFoundError(f'no calibration has the digest "{digest}": GET /judges/calibrations lists them')
    if len(matches) > 1:
        raise RequestError(f'several calibrations begin with "{digest}": give more digits')
    return matches[0]


async def list_calibrations(database: Database, *, judge_model: str | None = None) -> list[Calibration]:
    """List calibrations, newest first; of a single judge or of all."""
    columns = judge_calibrations.c
    query = sa.select(judge_calibrations).order_by(columns.created_at.desc(), columns.digest)
    if judge_model is not None:
        query = query.where(columns.judge_model == judge_model)
    calibrations = [_read_row(row) for row in await database.fetch_rows(query)]
    newest: dict[tuple[str | None, ...], str] = {}
    return [
        _listed(calibration, newest.setdefault(_judge(calibration.validation), calibration.digest))
        for calibration in calibrations
    ]


async def newest(database: Database) -> list[Kept]:
    columns = judge_calibrations.c
    judge = (columns.judge_model, columns.prompt_sha256, columns.thinking)
    place = sa.func.row_number().over(partition_by=judge, order_by=(columns.created_at.desc(), columns.digest))
    ranked = sa.select(judge_calibrations, place.label("place")).subquery()
    return [_read_row(row) for row in await database.fetch_rows(sa.select(ranked).where(ranked.c.place == 1))]


async def streams_of(database: Database, calibrations: Iterable[Kept]) -> dict[str, Kept]:
    """Return the calibration of each live stream whose judge has a calibration, by the stream's id."""
    by_judge = {judge: calibration for calibration in calibrations for judge in _instruments(calibration.validation)}
    if not by_judge:
        return {}
    columns = streams.c
    query = sa.select(columns.key, columns.instrument).where(columns.auditor == AUDITOR, columns.metric == METRIC)
    rows = await database.fetch_rows(query)
    pairs = await in_turns(lambda row: (row.key, by_judge.get(row.instrument.partition(" ")[2])), rows)
    return {key: calibration for key, calibration in pairs if calibration is not None}


def _instruments(validation: Validation) -> tuple[str, ...]:
    """Return the names that streams' instruments have after the auditor's version; judges think if told to."""
    name = f"{validation.judge_model} {validation.prompt_sha256[:12]}"
    unset = (name,) if validation.thinking == str(OFF) else ()
    return (*unset, f"{name} thinking={validation.thinking}")


def _require_judge(validation: Validation) -> None:
    if validation.thinking is None:
        raise RequestError("it does not say whether the judge thought: make it again (judge calibrate --thinking)")
    try:
        parse_thinking(validation.thinking)
    except ValueError as exc:
        raise RequestError(str(exc)) from exc
    is_named = 1 <= len(validation.judge_model) <= LONGEST_NAME and "\x00" not in validation.judge_model
    if not is_named or not re.fullmatch(r"[0-9a-f]{64}", validation.prompt_sha256):
        raise RequestError("it names no judge: a model of up to 200 characters and the sha256 of its question")


def _judge(validation: Validation) -> tuple[str | None, ...]:
    return validation.judge_model, validation.prompt_sha256, validation.thinking


def _listed(calibration: Kept, newest_digest: str) -> Calibration:
    thinking = calibration.validation.thinking or ""
    newer = None if newest_digest == calibration.digest else newest_digest
    return combine(Calibration, calibration, calibration.validation, thinking=thinking, superseded_by=newer)


def _read_row(row: sa.Row[Any]) -> Kept:
    validation = decoded(row.content.encode())
    return Kept(digest=row.digest, created_at=row.created_at, validation=validation)
