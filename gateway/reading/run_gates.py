"""Requirements on the numbers of a stored run, as `audit gate` puts them; needs the benchmarks, see `run_views`."""

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.reporting import gate
from benchmarks.reporting.gate import Verdict
from gateway.config.schema import Config
from gateway.errors import RequestError
from gateway.reading.run_forms import Gate, GateWanted, ShownVerdict
from gateway.store import stored_runs
from gateway.store.database import Database


async def judged(config: Config, query: GateWanted) -> bytes:
    """A Gate as JSON. Raises NotFoundError, ConflictError (no result), RequestError (a wrong requirement)."""
    database = await Database.open(config.store.url, migrate=False)
    try:
        run = await stored_runs.find(database, query.audit_id)
    finally:
        await database.close()
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
    estimate = verdict.estimate
    return ShownVerdict(
        requirement=verdict.requirement,
        where=verdict.where,
        passed=verdict.passed,
        found=verdict.found,
        value=None if estimate is None else estimate.value,
        lower=None if estimate is None else estimate.lower,
        upper=None if estimate is None else estimate.upper,
        n=None if estimate is None else estimate.n,
        n_excluded=None if estimate is None else estimate.n_excluded,
        reason=verdict.reason,
    )
