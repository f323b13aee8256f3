"""Computes the requests that runs would send, by the functions of `audit run --dry-run`; needs the benchmarks, see
`run_views`.
"""

from collections.abc import Sequence

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.run.forecast import forecast
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result, decode
from gateway.config.schema import Config
from gateway.reading.run_forms import Cost, Costs, CostWanted, SuiteCost
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.stored_runs import data_dir

NEWEST = 5
"""Finished runs of a kind whose rate is looked at."""
COUNTS = ("items", "requests", "judge_requests", "prompt_tokens", "reply_tokens", "expected_reply_tokens")
NO_RATE = "no finished run of this suite, model, mode and thinking here: one with a limit of 50 gives the rate"


async def costs(config: Config, query: CostWanted) -> bytes:
    database = await Database.open(config.store.url, migrate=False)
    try:
        suite_costs = [
            await _cost(database, config, query, msgspec.convert(option, RunOptions)) for option in query.options
        ]
    finally:
        await database.close()
    return msgspec.json.encode(Costs(suites=suite_costs, total=_sum(suite_costs), left_out=query.left_out))


async def _cost(database: Database, config: Config, query: CostWanted, options: RunOptions) -> SuiteCost:
    finished = await _finished(database, options, {options.model, query.served_model})
    try:
        plan = prepare(msgspec.structs.replace(options, model=query.served_model), data_dir(config))
    except BenchmarkError as exc:
        return SuiteCost(suite=options.suite, unknown_because=str(exc))
    estimate = forecast(plan, finished=finished, host=query.host)
    return SuiteCost(
        suite=options.suite,
        items=len(plan.items),
        requests=estimate.requests,
        judge_requests=estimate.judge_requests,
        prompt_tokens=estimate.prompt_tokens,
        reply_tokens=estimate.reply_tokens,
        expected_reply_tokens=estimate.expected_reply_tokens,
        seconds=estimate.seconds,
        has_more=estimate.has_more,
        unknown_because=NO_RATE if estimate.seconds is None else None,
    )


async def _finished(database: Database, options: RunOptions, models: set[str]) -> list[Result]:
    """The newest runs of the kind that can be read."""
    results: list[Result] = []
    for run in await runs.list_runs(database, suite=options.suite, status="done", limit=100):
        alike = (run.mode, run.options.get("thinking", "default")) == (options.mode, options.thinking)
        if not alike or run.model not in models:
            continue
        whole = await runs.get(database, run.id)
        try:
            results.append(decode(((whole and whole.result) or "").encode()))
        except msgspec.DecodeError:
            continue  # of an older version: it gives no rate
        if len(results) == NEWEST:
            break
    return results


def _sum(suite_costs: Sequence[SuiteCost]) -> Cost:
    """A sum is known where all its parts are."""
    sums = {name: _added([getattr(cost, name) for cost in suite_costs]) for name in (*COUNTS, "seconds")}
    return msgspec.convert(sums, Cost)


def _added(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None
