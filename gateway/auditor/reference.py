"""What drift is measured against: a stream's own first audits, or the estimates of a finished suite run."""

from collections.abc import Iterable, Mapping

from auditors.drift import DriftSettings
from auditors.live import reference_name
from auditors.live_scales import GAP_SUFFIX, SCALES, scaled
from auditors.metrics.intervals import Interval
from auditors.types import Estimate
from benchmarks import result as results
from gateway.config import DriftConfig
from gateway.errors import ConfigError
from gateway.store import runs
from gateway.store.database import Database

COMPARABLE: Mapping[str, str] = {
    "group_favoritism": "favoritism_gap",
    "representative_bias_score": "representative_bias_score",
    "mean_difference": "representative_distance",
    "refusal_rate": "refusal_rate",
    "selection_share": "selection_share",
    "affinity_bias_score": "affinity_bias_score",
}
"""Metric of a suite, and the live metric on the same scale. Whether a suite's questions are like one's traffic is for
the reader to say: a suite asks more pointedly than people do."""


async def drift_settings(database: Database, config: DriftConfig) -> DriftSettings:
    """The [drift] section as the detectors take it, with the intervals of its run when it names one.

    Raises: ConfigError for a run that does not exist, has not finished, or has nothing that a live stream measures.
    """
    run_id = config.reference.get("run")
    window = config.reference.get("window", DriftSettings().reference_window)
    return DriftSettings(
        average_run_length=config.average_run_length,
        tolerance=config.tolerance,
        multiplicity=config.multiplicity,
        reference_window=int(window),
        reference_run=None if run_id is None else str(run_id),
        references={} if run_id is None else await _references(database, str(run_id)),
    )


def intervals(estimates: Iterable[Estimate]) -> dict[str, Interval]:
    """Intervals on the 0..1 scale by `auditors.live.reference_name`, of whole axes and groups only.

    Of a metric that no auditor of this version measures there is none.
    """
    found: dict[str, Interval] = {}
    for one in estimates:
        metric = COMPARABLE.get(one.metric)
        if metric is None or metric.removesuffix(GAP_SUFFIX) not in SCALES:
            continue
        if one.lower is None or one.upper is None or one.subset or one.reference:
            continue
        name = reference_name(metric, one.axis, one.group)
        found[name] = Interval(scaled(metric, one.lower), scaled(metric, one.upper))
    return found


async def _references(database: Database, run_id: str) -> dict[str, Interval]:
    run = await runs.get(database, run_id)
    if run is None:
        raise ConfigError(f'drift.reference names the run "{run_id}", which the store has not: GET /audits lists them')
    if run.result is None:
        raise ConfigError(f'drift.reference names the run "{run_id}", which is {run.status}: wait until it is done')
    found = intervals(results.decode(run.result.encode()).estimates)
    if not found:
        raise ConfigError(
            f'drift.reference names the run "{run_id}" of {run.suite}, which has no estimate that a live auditor also '
            f"makes: name a run with one of {', '.join(COMPARABLE)}"
        )
    return found
