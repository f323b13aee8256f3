"""A number that finished runs of two suites give together, e.g. the BiasScore of decisions and implicit association."""

from pathlib import Path

import msgspec

from benchmarks.reporting import report
from benchmarks.run import result as results
from benchmarks.run.follow_up import observed
from benchmarks.run.log import kept
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import joined
from benchmarks.run.stopping import in_thread
from benchmarks.suites.common.observations import Observations
from benchmarks.suites.protocol import JointScore
from benchmarks.suites.registry import SUITES
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.store_log import StoreLog

ALIKE = (
    *("model", "mode", "protocol", "mitigation", "few_shot", "temperature", "thinking", "extra_body", "subset"),
    *("axes", "limit", "precision", "seed", "samples"),
)
"""Options in which the two must agree."""


async def add_joint_scores(database: Database, run: Run, data_dir: Path | None) -> None:
    """Gives every score that `run` has together with the newest run of another suite that is like it."""
    for suite in SUITES.values():
        joint = suite.joint_score
        if joint is None or run.suite not in (suite.name, joint.partner):
            continue
        partner = await _like(database, run, joint.partner if run.suite == suite.name else suite.name)
        if partner is not None:
            own, other = (run, partner) if run.suite == suite.name else (partner, run)
            await _replace(database, joint, own, other, data_dir)


async def _like(database: Database, run: Run, suite: str) -> Run | None:
    finished = await runs.list_runs(database, model=run.model, suite=suite, status="done")
    return next((candidate for candidate in finished if _options(candidate) == _options(run)), None)


async def _replace(database: Database, joint: JointScore, own: Run, partner: Run, data_dir: Path | None) -> None:
    stored = await runs.get(database, own.id)
    if stored is None or stored.result is None:
        return
    together = await in_thread(
        joined,
        results.decode(stored.result.encode()),
        joint,
        await _observations(database, own, data_dir),
        await _observations(database, partner, data_dir),
        msgspec.convert(partner.options, RunOptions).data,
    )
    page = await in_thread(report.render, [together])
    await runs.replace_result(database, own.id, result=results.encode(together).decode(), report=page)


def _options(run: Run) -> dict[str, object]:
    return {name: run.options.get(name) for name in ALIKE}


async def _observations(database: Database, run: Run, data_dir: Path | None) -> Observations:
    plan = await in_thread(prepare, msgspec.convert(run.options, RunOptions), data_dir)
    return observed(plan, await kept(plan, StoreLog(database, run)))
