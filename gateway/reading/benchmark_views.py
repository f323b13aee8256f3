"""Compares two stored runs and gates a run's numbers, as `audit compare` and `audit gate` do; see `run_views`."""

from collections.abc import Sequence

import msgspec

from auditors.structs import combine
from benchmarks.errors import BenchmarkError
from benchmarks.reporting import compare_page, gate
from benchmarks.reporting.compare import ComparedRun, Comparison, compare_runs
from benchmarks.reporting.flips import Flip, flipped_between
from benchmarks.reporting.gate import Verdict
from benchmarks.run.forecast import forecast
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result, decode
from gateway.config.schema import Config
from gateway.errors import ConflictError, RequestError
from gateway.reading.run_forms import Cost, Costs, CostWanted, Gate, GateWanted, ShownVerdict, SuiteCost
from gateway.store import runs, stored_runs
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.stored_runs import data_dir

NEWEST = 5
"""Finished runs of a kind whose rate is looked at."""
COUNTS = ("items", "requests", "judge_requests", "prompt_tokens", "reply_tokens", "expected_reply_tokens")
NO_RATE = "no finished run of this suite, model, mode and thinking here: one with a limit of 50 gives the rate"


async def costs(config: Config, query: CostWanted) -> bytes:
    async with await Database.open(config.store.url, migrate=False) as database:
        suite_costs = [
            await _cost(database, config, query, msgspec.convert(option, RunOptions)) for option in query.options
        ]
    return msgspec.json.encode(Costs(suites=suite_costs, total=_sum(suite_costs), left_out=query.left_out))


async def _cost(database: Database, config: Config, query: CostWanted, options: RunOptions) -> SuiteCost:
    finished = await _finished(database, options, {options.model, query.served_model})
    try:
        plan = prepare(msgspec.structs.replace(options, model=query.served_model), data_dir(config))
    except BenchmarkError as exc:
        return SuiteCost(suite=options.suite, unknown_because=str(exc))
    estimate = forecast(plan, finished=finished, host=query.host)
    unknown_because = NO_RATE if estimate.seconds is None else None
    return combine(SuiteCost, estimate, suite=options.suite, items=len(plan.items), unknown_because=unknown_because)


async def _finished(database: Database, options: RunOptions, models: set[str]) -> list[Result]:
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
    sums = {name: _added([getattr(cost, name) for cost in suite_costs]) for name in (*COUNTS, "seconds")}
    return msgspec.convert(sums, Cost)


def _added(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


async def judged(config: Config, query: GateWanted) -> bytes:
    """A Gate as JSON. Raises NotFoundError, ConflictError (no result), RequestError (a wrong requirement)."""
    async with await Database.open(config.store.url, migrate=False) as database:
        run = await stored_runs.find(database, query.audit_id)
    results = [stored_runs.result_of(run, "result")]
    verdicts: list[Verdict] = []
    try:
        for requirement in map(gate.parse, query.requirements):
            verdicts += gate.judge(requirement, results, allow_unvalidated_judge=query.allow_unvalidated_judge)
    except BenchmarkError as exc:
        raise RequestError(str(exc)) from exc
    return msgspec.json.encode(
        Gate(passed=all(verdict.passed for verdict in verdicts), verdicts=list(map(_show_verdict, verdicts)))
    )


def _show_verdict(verdict: Verdict) -> ShownVerdict:
    names = ("value", "lower", "upper", "n", "n_excluded")
    return combine(ShownVerdict, verdict, **{name: getattr(verdict.estimate, name, None) for name in names})


class _Answer(msgspec.Struct, frozen=True):
    comparison: Comparison
    n_flipped: int
    flips: list[Flip]


async def compared(config: Config, id_a: str, id_b: str) -> tuple[bytes, bytes]:
    """Return the comparison as JSON, and its page. Raises NotFoundError; ConflictError for no pair of runs."""
    async with await Database.open(config.store.url, migrate=False) as database:
        run_a, run_b = [await stored_runs.find(database, run_id) for run_id in (id_a, id_b)]
        for run in (run_a, run_b):
            stored_runs.result_of(run, "comparison")
        if run_a.suite != run_b.suite:
            raise ConflictError(f'{id_a} and {id_b} cannot be compared: suite is "{run_a.suite}" and "{run_b.suite}"')
        sides = [await _side(database, config, run) for run in (run_a, run_b)]
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
