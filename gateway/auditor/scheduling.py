"""Starts suite runs without a user: when a schedule is due, and when the model behind an upstream has changed."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from auditors.clients.completion import served_models
from auditors.clients.model_list import fingerprint_of
from auditors.types import CompletionError
from benchmarks.errors import BenchmarkError
from benchmarks.suites import registry
from gateway.auditor.maintenance import RUN_TASK
from gateway.config.audit_request import AuditRequest, choose, options_of, require_askable
from gateway.config.schema import Config, ScheduleConfig, UpstreamConfig
from gateway.config.timing import Timing
from gateway.errors import ConfigError, ConflictError, RequestError
from gateway.jobs import JobQueue
from gateway.store import catalogue, schedules, served
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.schedules import Schedule

logger = logging.getLogger(__name__)


def configured(config: Config) -> list[tuple[str, Timing, AuditRequest]]:
    """The schedules of the configuration. Raises ConfigError naming the schedule and what is wrong in it."""
    for suite in [*config.audits.on_model_change, *(suite for s in config.audits.schedules for suite in s.suites)]:
        try:
            if registry.find(suite) is registry.OWN:
                raise BenchmarkError(f"{suite} cannot be scheduled: its questions are a file")
        except BenchmarkError as exc:
            raise ConfigError(f"[audits]: {exc}") from exc
    return [_configured(schedule) for schedule in config.audits.schedules]


def _configured(schedule: ScheduleConfig) -> tuple[str, Timing, AuditRequest]:
    fields = {**schedule.options, "suites": schedule.suites, "model": schedule.model}
    try:
        request = msgspec.convert(fields, AuditRequest)
        require_askable(request)
    except (msgspec.ValidationError, RequestError) as exc:
        raise ConfigError(f'audits.schedules "{schedule.name}": options: {exc}') from exc
    return (
        schedule.name,
        Timing.of(schedule.cron, schedule.every_hours * 3600 if schedule.every_hours else None),
        request,
    )


async def start_due(database: Database, queue: JobQueue, now: float | None = None) -> None:
    """Queues the runs of every schedule whose time has come."""
    now = time.time() if now is None else now
    await schedules.pull_forward(database, now)
    due = await schedules.due(database, now)
    known_suites = await catalogue.read(database) if due else []
    if not known_suites:  # nothing is due, or no auditor has said yet what it can run
        return
    for schedule in due:
        options, error = _runs_of(schedule.request, known_suites)
        if error:
            logger.warning('schedule "%s" came to no run: %s', schedule.name, error)
        ids = await schedules.take(database, schedule, now, options, error=error)
        await _announce(queue, ids)
        if ids:
            logger.info('schedule "%s" started %d runs', schedule.name, len(ids))


async def notice_models(database: Database, queue: JobQueue, config: Config) -> None:
    """Asks each upstream what it serves, notes what changed, and runs `audits.on_model_change` for it."""
    known_suites = await catalogue.read(database) if config.audits.on_model_change else []
    if config.audits.on_model_change and not known_suites:  # no auditor has said yet what it can run
        return
    for upstream in config.upstreams:
        asked_at = time.time()
        try:
            fingerprints = await _fingerprints(config, upstream)
        except CompletionError as exc:
            logger.debug("upstream %s: %s", upstream.name, exc)
            continue
        changed = await served.observe(
            *(database, upstream.name, fingerprints),
            asked_at=asked_at,
            runs_of=lambda model: _after_change(config, model, known_suites),
        )
        for model, ids in changed.items():
            logger.warning("upstream %s serves a changed %s: %d suites run", upstream.name, model, len(ids))
            await _announce(queue, ids)


def _after_change(config: Config, model: str, known_suites: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if not config.audits.on_model_change:
        return []
    request = AuditRequest(suites=list(config.audits.on_model_change), model=model, thinking=config.audits.thinking)
    options, error = _runs_of(request, known_suites)
    if error:
        logger.warning("audits.on_model_change for %s: %s", model, error)
    return options


def due_times(
    known_schedules: Sequence[Schedule], finished: Sequence[Run], known_suites: Sequence[dict[str, Any]]
) -> dict[tuple[str, str], float]:
    """Return when the run that follows the newest finished run is due, by suite and model: Unix seconds, the earliest
    of all schedules. A suite that has never finished is due from the first time of its schedule on.
    """
    successes: dict[tuple[str, str], float] = {}
    for run in finished:
        place = run.suite, run.model
        successes[place] = max(successes.get(place, 0.0), run.finished_at or 0.0)
    times: dict[tuple[str, str], float] = {}
    for schedule in known_schedules:
        for suite in _named(schedule.request, known_suites):
            place = suite, schedule.request.model
            settled_at = max(schedule.created_at, successes.get(place, 0.0))
            due_at = schedule.timing.next_after(settled_at, since=schedule.next_due_at)
            times[place] = min(times.get(place, due_at), due_at)
    return times


def _named(request: AuditRequest, known_suites: Sequence[dict[str, Any]]) -> list[str]:
    """The suites that a schedule is for, whether or not they can be run now; of "all" those that can."""
    if request.suites != "all":
        return [request.suites] if isinstance(request.suites, str) else request.suites
    runs, _ = _runs_of(request, known_suites)
    return [str(options["suite"]) for options in runs]


def _runs_of(request: AuditRequest, known_suites: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
    try:
        suites, _ = choose(request, known_suites)
    except (RequestError, ConflictError) as exc:
        return [], str(exc)
    return [options_of(request, suite) for suite in suites], None


async def _fingerprints(config: Config, upstream: UpstreamConfig) -> dict[str, str]:
    named = await served_models(upstream.origin, config.secret(upstream.api_key_env))
    return {
        model: fingerprint_of([entry])
        for model, entry in named.items()
        if "*" in upstream.models or model in upstream.models
    }


async def _announce(queue: JobQueue, run_ids: list[str]) -> None:
    for run_id in run_ids:
        await queue.defer(RUN_TASK, {"run_id": run_id}, lock=run_id)
