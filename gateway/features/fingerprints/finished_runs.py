"""Show models side by side by the finished runs of the store; needs the benchmarks, see `gateway.reading.run_views`."""

import msgspec

from benchmarks.run.result import decode
from gateway.config.schema import Config
from gateway.features.fingerprints import suite_parts
from gateway.features.fingerprints.suite_parts import FinishedRun
from gateway.reading.viewer_forms import hide
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run

MOST_RUNS = 2_000
"""Newest finished runs that are looked through."""
MOST_MODELS = 12
"""Most models, those with the newest runs."""


async def encode(config: Config) -> bytes:
    """Return fingerprints as JSON: of each suite, model and way of measuring the newest run that can be read."""
    database = await Database.open(config.store.url, migrate=False)
    try:
        chosen, n_left_out = _chosen(await runs.list_runs(database, status="done", limit=MOST_RUNS))
        results = [await _finished(database, run) for run in chosen]
    finally:
        await database.close()
    return msgspec.json.encode(suite_parts.render([result for result in results if result is not None], n_left_out))


def _chosen(done: list[Run]) -> tuple[list[Run], int]:
    """Return the newest of each, and the number of models that there was not enough room for."""
    newest: dict[tuple[str, ...], Run] = {}
    for run in sorted(done, key=lambda run: run.finished_at or 0.0, reverse=True):
        way = (str(run.options.get("data")), str(run.options.get("mitigation")))
        newest.setdefault((run.suite, run.model, run.mode, run.protocol, *way), run)
    models = list(dict.fromkeys(run.model for run in newest.values()))
    drawn_models = set(models[:MOST_MODELS])
    return [run for run in newest.values() if run.model in drawn_models], len(models) - len(drawn_models)


async def _finished(database: Database, run: Run) -> FinishedRun | None:
    stored = await runs.result_of(database, run.id)
    try:
        result = decode((stored or "").encode())
    except msgspec.DecodeError:
        return None
    if result.extra_body:  # viewers read these pages, and the fields may hold text
        result = msgspec.structs.replace(result, extra_body=hide(result.extra_body))
    return FinishedRun(id=run.id, finished_at=run.finished_at or 0.0, result=result)
