"""The reference of the drift detectors: a stream's own first audits, or the estimates of a finished suite run."""

from collections.abc import Iterable, Mapping

import msgspec

from auditors.metrics.intervals import Interval
from auditors.streams.drift import DriftSettings
from auditors.streams.scales import GAP_SUFFIX, SCALES, scaled
from auditors.streams.state import reference_name
from auditors.types import Estimate
from benchmarks.run import result as results
from benchmarks.suites import registry
from benchmarks.suites.protocol import Scale
from benchmarks.suites.registry import SUITES
from gateway.config.schema import DriftConfig
from gateway.errors import ConfigError
from gateway.store import runs
from gateway.store.database import Database
from gateway.streams.settings import settings_of


async def drift_settings(database: Database, config: DriftConfig) -> DriftSettings:
    """Return the [drift] settings for the detectors, with the intervals of the reference run if it names a run. Raises
    ConfigError for a run that does not exist, has not finished, or has no assessable number that a stream measures.
    """
    settings = settings_of(config)
    if settings.reference_run is None:
        return settings
    return msgspec.structs.replace(settings, references=await _references(database, settings.reference_run))


def intervals(estimates: Iterable[Estimate], scales: Mapping[str, Scale]) -> dict[str, Interval]:
    """Return intervals on [0, 1] of whole axes and groups, by `auditors.streams.state.reference_name`. `scales`: the
    suite's, which name the live metric that each metric can be compared with; other metrics are left out.
    """
    intervals_by_name: dict[str, Interval] = {}
    for estimate in estimates:
        metric = scales[estimate.metric].live if estimate.metric in scales else None
        if metric is None or metric.removesuffix(GAP_SUFFIX) not in SCALES:
            continue
        if estimate.lower is None or estimate.upper is None or estimate.subset or estimate.reference:
            continue
        name = reference_name(metric, estimate.axis, estimate.group)
        intervals_by_name[name] = Interval(scaled(metric, estimate.lower), scaled(metric, estimate.upper))
    return intervals_by_name


async def _references(database: Database, run_id: str) -> dict[str, Interval]:
    run = await runs.get(database, run_id)
    if run is None:
        raise ConfigError(f'drift.reference names the run "{run_id}", which the store has not: GET /audits lists them')
    if run.result is None:
        raise ConfigError(f'drift.reference names the run "{run_id}", which is {run.status}: wait until it is done')
    suite = registry.known(run.suite)
    result = results.decode(run.result.encode())
    if result.fault is not None:
        about = f'drift.reference names the run "{run_id}" of {run.suite}, which is not assessable'
        raise ConfigError(f"{about} ({result.fault}): name another run")
    estimates = [estimate for estimate in result.estimates if result.fault_of(estimate) is None]
    references = intervals(estimates, suite.scales) if suite else {}
    if not references:
        raise ConfigError(
            f'drift.reference names the run "{run_id}" of {run.suite}, which has no assessable estimate that a live '
            f"auditor also makes: name a run of a suite with one, e.g. {', '.join(_comparable_suites())}"
        )
    return references


def _comparable_suites() -> list[str]:
    return [name for name, suite in SUITES.items() if any(scale.live for scale in suite.scales.values())]
