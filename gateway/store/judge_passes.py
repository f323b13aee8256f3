"""Re-judgements of a judge's reference set, and since when a judge has drifted from it."""

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from auditors.judge_reference import AUDITOR, ReferenceSet
from auditors.judge_validation import Validation
from auditors.streams.drift import DriftSettings
from auditors.streams.state import reference_name
from auditors.text.thinking import OFF
from gateway.store import passes
from gateway.store.calibrations import AUDITOR as JUDGE
from gateway.store.calibrations import Kept
from gateway.store.database import Database
from gateway.store.tables import acknowledgements
from gateway.store.tables import streams as table


class Drifted(msgspec.Struct, frozen=True):
    """A judge that moved. Unix seconds."""

    since: float
    stands: bool
    """True while its alarm stands; False if someone accepted the new level."""


def watched_by(reference_set: ReferenceSet, digest: str, settings: DriftSettings) -> DriftSettings:
    """The settings of the live detectors, with the set as the reference."""
    intervals = {
        reference_name(metric, None, None): reference for metric, reference in reference_set.references.items()
    }
    return msgspec.structs.replace(settings, reference_run=f"reference set {digest[:12]}", references=intervals)


async def take(database: Database, digest: str, every_seconds: float, now: float) -> bool:
    """Return whether a pass is due, which then counts as begun; the auditor that comes first has it."""
    return await passes.take(database, f"reference {digest[:40]}", every_seconds, now)


async def as_of_now(database: Database, calibration: Kept) -> Validation:
    """A kept comparison, which says whether its judge has drifted since."""
    drift = (await drifted(database)).get(instrument(calibration.validation))
    if drift is None or drift.since <= calibration.created_at:
        return calibration.validation
    return msgspec.structs.replace(calibration.validation, drifted_since=drift.since)


def instrument(validation: Validation) -> str:
    """Return the name that instruments of reference streams have for a judge."""
    return f"{validation.judge_model} {validation.prompt_sha256[:12]} thinking={validation.thinking}"


async def drifted(database: Database) -> dict[str, Drifted]:
    """The judges that have, by what instruments call them after the auditor's version."""
    of_judges = sa.select(table.c.key, table.c.instrument, table.c.alarm_since).where(table.c.auditor == AUDITOR)
    async with database.read() as connection:
        rows = (await connection.execute(of_judges)).all()
        if not rows:
            return {}
        columns = acknowledgements.c
        accepted = sa.select(columns.stream, sa.func.max(columns.alarm_since).label("since")).where(
            columns.stream.in_([row.key for row in rows]), columns.accept_new_level
        )
        past = {row.stream: row.since for row in await connection.execute(accepted.group_by(columns.stream))}
    drift_by_judge: dict[str, Drifted] = {}
    for row in rows:
        name = row.instrument.partition(" ")[2]
        since = row.alarm_since or past.get(row.key)
        before = drift_by_judge.get(name)
        if since is not None and (
            before is None or (row.alarm_since is not None, since) > (before.stands, before.since)
        ):
            drift_by_judge[name] = Drifted(since, row.alarm_since is not None)
    return drift_by_judge


async def streams_of(database: Database, moved: Mapping[str, Drifted]) -> dict[str, Drifted]:
    """Return the drift of each live stream whose judge has drifted, by the stream's id."""
    if not moved:
        return {}
    query = sa.select(table.c.key, table.c.instrument).where(table.c.auditor == JUDGE)
    rows = await database.fetch_rows(query)
    return {row.key: drift for row in rows if (drift := moved.get(_named(row.instrument))) is not None}


def _named(instrument: str) -> str:
    """Return the name that reference streams have for the judge, which thinks only if it is set to."""
    name = instrument.partition(" ")[2]
    return name if " thinking=" in name else f"{name} thinking={OFF}"
