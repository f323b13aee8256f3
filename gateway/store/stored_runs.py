"""Runs of the store as the benchmarks read them; needs the benchmarks, so only a process of its own loads it."""

from functools import lru_cache
from pathlib import Path

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.run.directory import Manifest
from benchmarks.run.follow_up import extend_plan, observed
from benchmarks.run.log import Replies, kept
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.result import Result, decode
from benchmarks.suites.common.observations import Observations
from gateway.config.schema import Config
from gateway.errors import ConflictError, NotFoundError
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.store_log import StoreLog


async def find(database: Database, audit_id: str) -> Run:
    """The run, own prompts included. Raises NotFoundError."""
    run = await runs.get(database, audit_id)
    if run is None:
        raise NotFoundError(f'no audit has the id "{audit_id}": GET /audits lists them')
    return await runs.with_prompts(database, run)


def data_dir(config: Config) -> Path | None:
    return Path(config.audits.data_dir) if config.audits.data_dir else None


def result_of(run: Run, what: str) -> Result:
    """The result of a finished run. Raises ConflictError where there is none, or it has another version."""
    if run.status != "done":
        why = f"; GET /audits/{run.id} says why" if run.error else ""
        raise ConflictError(f"audit {run.id} has no {what}: it is {run.status}{why}")
    try:
        return decode((run.result or "").encode())
    except msgspec.DecodeError as exc:
        raise ConflictError(f"audit {run.id} has a result of another version, which cannot be read: {exc}") from exc


def manifest_of(run: Run, result: Result) -> Manifest:
    """Return the manifest as run.json has it, with the model that served under the name asked for."""
    options = msgspec.structs.replace(msgspec.convert(run.options, RunOptions), model=result.model)
    return Manifest(
        options=options,
        suite_version=result.suite_version,
        dataset_sha256=result.dataset.sha256,
        prompt_sha256=result.provenance.prompt_sha256,
    )


def planned(run: Run, folder: Path | None) -> Plan:
    """The plan of a run, made from its options. BenchmarkError: no data, another suite version or other prompts."""
    plan = _prepared(msgspec.json.encode(run.options, order="sorted"), folder)
    if run.status != "done":
        return plan
    result = result_of(run, "items")
    if plan.suite.version != result.suite_version:
        raise BenchmarkError(f"it is of {run.suite} {result.suite_version}, and here is {plan.suite.version}")
    if plan.prompt_sha256 != result.provenance.prompt_sha256:
        raise BenchmarkError(f"the items that {run.suite} has here are not those that it asked")
    return plan


@lru_cache(maxsize=2)
def _prepared(options: bytes, folder: Path | None) -> Plan:
    """Kept for the next page of the same run, as long as this process is."""
    return prepare(msgspec.json.decode(options, type=RunOptions), folder)


async def replied(database: Database, run: Run, plan: Plan) -> tuple[Plan, Replies]:
    """The plan with the items that its replies gave rise to, and its replies; both outlive the connection."""
    log = StoreLog(database, run)
    replies = await kept(plan, log)
    complete = extend_plan(plan, replies)
    return complete, replies if complete is plan else await kept(complete, log)


async def observations(database: Database, run: Run, plan: Plan) -> Observations:
    """Every item of a plan with its replies."""
    return observed(*await replied(database, run, plan))
