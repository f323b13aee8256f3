"""A number that two finished runs give together: the BiasScore of implicit association and decisions (contract 2)."""

import asyncio
from pathlib import Path

import msgspec

from benchmarks import report
from benchmarks import result as results
from benchmarks.bias_score import with_bias_score
from benchmarks.plan import RunOptions, prepare
from benchmarks.stages import observed
from benchmarks.suite import Observation, Reply
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run

DECISION, ASSOCIATION = "decision", "implicit_association"
ALIKE = ("model", "mode", "protocol", "mitigation", "few_shot", "temperature", "subset", "limit", "seed", "samples")
"""Options in which the two must agree."""


async def join(database: Database, run: Run, data_dir: Path | None) -> None:
    """Gives the decision run its score, when `run` is one of the two and the newest run of the other is like it."""
    if run.suite not in (DECISION, ASSOCIATION):
        return
    other = ASSOCIATION if run.suite == DECISION else DECISION
    found = await runs.list_runs(database, model=run.model, suite=other, status="done")
    partner = next((one for one in found if _alike(one) == _alike(run)), None)
    if partner is None:
        return
    decision, association = (run, partner) if run.suite == DECISION else (partner, run)
    stored = await runs.get(database, decision.id)
    if stored is None or stored.result is None:
        return
    joined = with_bias_score(
        results.decode(stored.result.encode()),
        await _observations(database, association, data_dir),
        await _observations(database, decision, data_dir),
    )
    page = await asyncio.to_thread(report.render, [joined])
    await runs.replace_result(database, decision.id, result=results.encode(joined).decode(), report=page)


def _alike(run: Run) -> dict[str, object]:
    return {name: run.options.get(name) for name in ALIKE}


async def _observations(database: Database, run: Run, data_dir: Path | None) -> list[Observation]:
    plan = await asyncio.to_thread(prepare, msgspec.convert(run.options, RunOptions), data_dir)
    replies = [msgspec.json.decode(body, type=Reply) for body in await runs.responses(database, run.id)]
    return observed(plan, {(reply.item_id, reply.sample): reply for reply in replies})
