"""Two runs of the store side by side, as `audit compare` has them; needs the benchmarks, see `run_views`."""

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.reporting import compare_page
from benchmarks.reporting.compare import ComparedRun, Comparison, compare_runs
from benchmarks.reporting.flips import Flip, flipped_between
from gateway.config.schema import Config
from gateway.errors import ConflictError
from gateway.store import stored_runs
from gateway.store.database import Database
from gateway.store.runs import Run


class _Answer(msgspec.Struct, frozen=True):
    comparison: Comparison
    n_flipped: int
    flips: list[Flip]


async def compared(config: Config, id_a: str, id_b: str) -> tuple[bytes, bytes]:
    """Return the comparison as JSON, and its page. Raises NotFoundError; ConflictError for no pair of runs."""
    database = await Database.open(config.store.url, migrate=False)
    try:
        run_a, run_b = [await stored_runs.find(database, run_id) for run_id in (id_a, id_b)]
        for run in (run_a, run_b):
            stored_runs.result_of(run, "comparison")
        if run_a.suite != run_b.suite:
            raise ConflictError(f'{id_a} and {id_b} cannot be compared: suite is "{run_a.suite}" and "{run_b.suite}"')
        sides = [await _side(database, config, run) for run in (run_a, run_b)]
    finally:
        await database.close()
    try:
        comparison = compare_runs(*sides)
        flips, n_flipped = flipped_between(*(side.observations() for side in sides))
    except BenchmarkError as exc:
        raise ConflictError(str(exc)) from exc
    page = compare_page.render(comparison, flips, n_flipped)
    return msgspec.json.encode(_Answer(comparison, n_flipped, flips)), page.encode()


async def _side(database: Database, config: Config, run: Run) -> ComparedRun:
    result = stored_runs.result_of(run, "comparison")
    try:
        plan = stored_runs.planned(run, stored_runs.data_dir(config))
        seen = await stored_runs.observations(database, run, plan)
    except BenchmarkError as exc:
        raise ConflictError(f"audit {run.id} cannot be compared: {exc}") from exc
    return ComparedRun(
        name=run.id,
        manifest=stored_runs.manifest_of(run, result),
        result=result,
        observations=lambda: seen,
        n_items=len(plan.items),
    )
