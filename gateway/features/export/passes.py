"""One pass of an export: brings to an address what is not there yet. A part of the measurements is planned in the store
before it is written, so after a kill the same files follow; a day whose runs have changed is written again.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from operator import attrgetter
from typing import IO, Any, Literal

import msgspec

from benchmarks.run import result as results
from benchmarks.run.result import Result
from gateway.errors import ExportError, GatewayError, StoreError
from gateway.features.export import store as exports
from gateway.features.export.address import VERSION, Address, UnfinishedFile
from gateway.features.export.store import LEASE_SECONDS, LostLeaseError, Measured, Progress, day_of
from gateway.store import counters
from gateway.store.connections import Connections

ROWS_IN_PART = 1_000_000
ROWS_AT_ONCE = 10_000
"""Rows in memory, and in a row group."""
MOST_OPEN = 16
"""Most files open at a time, one a day; rows come in the order of ids, so a closed day seldom comes again."""


class Column(msgspec.Struct, frozen=True):
    """A column of a data set."""

    name: str
    kind: Literal["int64", "float64", "string", "time"]
    text: str
    unit: str | None = None


DATASETS: Mapping[str, Sequence[Column]] = msgspec.toml.decode(
    resources.files(__package__).joinpath("columns.toml").read_bytes(), type=dict[str, list[Column]]
)


class ParquetFile:
    """A Parquet file of a data set, with a row group for each `add`."""

    def __init__(self, file: IO[bytes], dataset: str) -> None:
        """Raises ExportError where pyarrow is not installed."""
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ModuleNotFoundError as exc:
            raise ExportError('exporting needs fsspec and pyarrow: pip install "biasgate[export]"') from exc
        self._schema = _schema(pa, dataset)
        self._arrow = pa
        self._writer = pyarrow.parquet.ParquetWriter(file, self._schema, compression="zstd")

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows, whose values are in the order of the columns; times are Unix seconds."""
        arrays = [
            self._arrow.array(_in_microseconds(values) if field.name.endswith("_at") else values, type=field.type)
            for field, values in zip(self._schema, zip(*rows, strict=True), strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Writes the end, without which the file is not Parquet; the file beneath stays open."""
        self._writer.close()


def _schema(arrow: Any, dataset: str) -> Any:
    metadata = {"biasgate.dataset": dataset, "biasgate.layout": str(VERSION), "biasgate.version": version("biasgate")}
    return arrow.schema([_field(arrow, column) for column in DATASETS[dataset]], metadata=metadata)


def _field(arrow: Any, column: Column) -> Any:
    kinds = {"int64": arrow.int64(), "float64": arrow.float64(), "string": arrow.string()}
    kind = arrow.timestamp("us", tz="UTC") if column.kind == "time" else kinds[column.kind]
    unit = {} if column.unit is None else {"unit": column.unit}
    return arrow.field(column.name, kind, metadata={"description": column.text, **unit})


def _in_microseconds(seconds: Sequence[float | None]) -> list[int | None]:
    return [None if value is None else round(value * 1e6) for value in seconds]


class StoppedError(GatewayError):
    """The pass was told to stop. The next one goes on where it was."""


class Brought(msgspec.Struct):
    """The rows that a pass has written, by data set, and its number of files."""

    rows: dict[str, int]
    files: int = 0


async def export_new_rows(
    database: Connections,
    url: str,
    owner: str,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
    is_due: Callable[[Progress], bool] = lambda _: True,
) -> Brought:
    """Make the address hold what the store holds. `database`: of this event loop, which writes files, so no other work
    may wait for it; `is_stopped`: asked between pages; `is_due`: asked once no other process can start a pass. Raises
    BusyError (another process exports, or no pass is due), StoppedError, ExportError or StoreError.
    """
    progress = await exports.acquire_lease(database, url, owner, now=time.time(), is_due=is_due)
    export_pass = _Pass(database, url, owner, progress, is_stopped)
    try:
        brought = await export_pass.run()
    except LostLeaseError:
        raise
    except StoppedError:
        await export_pass.leave()
        raise
    except Exception as exc:
        with suppress(StoreError):  # the error may be the store's
            await export_pass.leave(str(exc))
        raise
    await export_pass.leave()
    return brought


class _Pass:
    def __init__(
        self, database: Connections, url: str, owner: str, progress: Progress, is_stopped: Callable[[], bool]
    ) -> None:
        self._database, self._url, self._owner = database, url, owner
        self._progress, self._is_stopped = progress, is_stopped
        self._noted_at = time.monotonic()
        self._brought = Brought(rows={})

    async def run(self) -> Brought:
        self._address = Address(self._url)
        there = self._address.export_id()
        if there is not None and there != self._progress.id:
            raise ExportError(f"{self._address} holds the export of another store: name an empty directory")
        if there is None:  # the first pass, or the address was emptied
            begun = Progress(id=uuid.uuid4().hex, since=self._progress.since, tried_at=self._progress.tried_at)
            await self._note(msgspec.structs.replace(begun, owner=self._owner))
            self._address.claim(str(begun.id))
        self._address.forget_unfinished()
        await self._bring_measurements()
        stored_days = await exports.days_of_runs(self._database)
        for day in sorted({*stored_days, *self._progress.days}):
            if stored_days.get(day) == self._progress.days.get(day):
                continue
            days, n = dict(self._progress.days), 0
            if day in stored_days:
                days[day], n = stored_days[day], await self._bring_day(day)
            else:
                del days[day]
                for dataset in ("runs", "run_estimates"):
                    self._address.remove(f"{dataset}/day={day}/runs.parquet")
            changed = msgspec.structs.replace(self._progress, days=days, moved_at=time.time())
            await self._note_rows(changed, "runs", n)
        now = time.time()
        done = msgspec.structs.replace(self._progress, moved_at=now, done_at=now, error=None)
        await self._note(done, raised={(exports.PASSES, ("done",)): 1.0})
        return self._brought

    async def leave(self, error: str | None = None) -> None:
        """Release the lease. `error`: why the pass failed; None leaves the error of an earlier pass."""
        raised: counters.Increments = {} if error is None else {(exports.PASSES, ("failed",)): 1.0}
        last = self._progress.error if error is None else error
        changed = msgspec.structs.replace(self._progress, owner=None, until=0.0, error=last)
        await exports.write_progress(self._database, self._url, self._owner, changed, raised=raised)

    async def _bring_measurements(self) -> None:
        upto = await exports.read_last_settled_id(self._database)
        if 0 < upto < self._progress.measured:
            raise ExportError(
                f"{self._address} has measurements up to id {self._progress.measured}, the store up to {upto}: it was "
                "restored or emptied and gives ids out again: name an empty directory"
            )
        while True:
            after, last = self._progress.measured, self._progress.planned
            if last is None:
                last = await exports.end_of_part(self._database, after=after, upto=upto, rows=ROWS_IN_PART)
                if last is None:
                    return
                await self._note(msgspec.structs.replace(self._progress, planned=last))
            n, name = 0, f"part-{last:015}"
            with _Files(self._address, "measurements", name) as files:
                while rows := await exports.read_measurements(
                    self._database, after=after, upto=last, limit=ROWS_AT_ONCE
                ):
                    rows_by_day: dict[str, list[Measured]] = {}
                    for row in rows:
                        rows_by_day.setdefault(day_of(row.created_at), []).append(row)
                    for day, of_day in sorted(rows_by_day.items()):
                        files.add(day, [_measurement(row) for row in of_day])
                    n, after = n + len(rows), rows[-1].id
                    await self._sign_of_life()
                self._brought.files += files.finish()
            done = msgspec.structs.replace(self._progress, measured=last, planned=None, moved_at=time.time())
            await self._note_rows(done, "measurements", n)

    async def _bring_day(self, day: str) -> int:
        n = 0
        address = self._address
        with _Files(address, "runs", "runs") as files, _Files(address, "run_estimates", "runs") as estimates:
            async for rows in exports.runs_of(self._database, day):
                decoded = [(row, results.decode(row.result.encode()) if row.result else None) for row in rows]
                files.add(day, [_run(row, result) for row, result in decoded])
                if of_runs := [estimate for row, result in decoded if result for estimate in _estimates(row, result)]:
                    estimates.add(day, of_runs)
                n += len(rows)
                await self._sign_of_life()
            written = estimates.finish()
            if not written:
                self._address.remove(f"run_estimates/day={day}/runs.parquet")
            self._brought.files += written + files.finish()
        return n

    async def _sign_of_life(self) -> None:
        """Renew the lease if it is time. Raises StoppedError."""
        if self._is_stopped():
            raise StoppedError("the export was told to stop: the next one goes on where it was")
        if time.monotonic() - self._noted_at > LEASE_SECONDS / 10:
            await self._note(self._progress)

    async def _note_rows(self, changed: Progress, dataset: str, n: int) -> None:
        await self._note(changed, raised={(exports.ROWS, (dataset,)): float(n)} if n else {})
        self._brought.rows[dataset] = self._brought.rows.get(dataset, 0) + n

    async def _note(self, changed: Progress, *, raised: counters.Increments | None = None) -> None:
        self._progress = await exports.write_progress(self._database, self._url, self._owner, changed, raised=raised)
        self._noted_at = time.monotonic()


class _Files:
    """The files of a data set that a pass writes, by day; those not finished at the exit are abandoned."""

    def __init__(self, address: Address, dataset: str, name: str) -> None:
        self._address, self._dataset, self._name = address, dataset, name
        self._open: dict[str, tuple[UnfinishedFile, ParquetFile]] = {}
        self._begun: dict[str, int] = {}
        self._finished = 0

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        for begun, parquet in self._open.values():
            with suppress(Exception):  # its file may be what has failed
                parquet.close()
            begun.abandon()

    def add(self, day: str, rows: Sequence[Sequence[Any]]) -> None:
        opened = self._open.pop(day, None)
        if opened is None:
            if len(self._open) >= MOST_OPEN:
                self._finish(next(iter(self._open)))
            nth = self._begun[day] = self._begun.get(day, 0) + 1
            suffix = "" if nth == 1 else f"-{nth}"
            begun = self._address.create_file(f"{self._dataset}/day={day}/{self._name}{suffix}.parquet")
            try:
                opened = begun, ParquetFile(begun.file, self._dataset)
            except BaseException:
                begun.abandon()
                raise
        self._open[day] = opened  # the last one used
        with self._address.wrap_errors():
            opened[1].add(rows)

    def finish(self) -> int:
        """Finish the open files; return the number of all files finished."""
        for day in list(self._open):
            self._finish(day)
        return self._finished

    def _finish(self, day: str) -> None:
        begun, parquet = self._open[day]
        with self._address.wrap_errors():
            parquet.close()
        begun.finish()
        del self._open[day]
        self._finished += 1


def _measurement(row: Measured) -> list[Any]:
    judge = row.judge
    stamp = [None] * 4 if judge is None else [judge.model, judge.prompt_sha256, judge.fingerprint, judge.thinking]
    at = row._fields.index("judge")
    return [*row[:at], *stamp, *row[at + 1 :]]


def _run(row: Any, result: Result | None) -> list[Any]:
    options: dict[str, Any] = msgspec.json.decode(row.options)
    kind = result.dataset.kind if result else options.get("data", "canonical")
    counts = {} if result is None else {name: n for name, n in result.counts.items() if name != "items"}
    return [
        *(row.id, row.suite, result and result.suite_version, row.model, row.mode, row.protocol, kind),
        *(result and result.dataset.sha256, options.get("mitigation", "none"), options.get("thinking", "default")),
        *(result and result.provenance.judged_by, row.status, result and result.counts.get("items")),
        *(sum(counts.values()) if result else None, counts.get("ok"), result and result.provenance.requests),
        *(result and result.provenance.seconds, row.created_at, row.started_at, row.finished_at),
    ]


_ESTIMATE = attrgetter(
    *("metric", "axis", "group", "reference", "subset", "value", "lower", "upper", "confidence_level", "method"),
    *("n", "n_excluded", "reason"),
)


def _estimates(row: Any, result: Result) -> list[list[Any]]:
    of_run = [row.id, row.suite, row.model, row.mode, row.protocol]
    return [[*of_run, *_ESTIMATE(estimate), result.fault_of(estimate), row.created_at] for estimate in result.estimates]
