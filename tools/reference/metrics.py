"""The exported metric families, of a gateway and of an auditor with every installed feature."""

import asyncio
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import Metric

from auditors.streams.drift import DriftSettings
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.enabled import EnabledAuditors
from gateway.auditor.live_series import ALARM, DAMAGED, OWN, SERIES, THRESHOLD
from gateway.auditor.metrics import AuditorMetrics
from gateway.auditor.part import AuditorContext, parts_of
from gateway.config.loading import validate
from gateway.feature import FEATURES
from gateway.jobs import open_queue
from gateway.store.database import Database
from gateway.telemetry.metrics import GatewayCollector
from gateway.telemetry.shared_counts import SharedCounts
from gateway.telemetry.worker_stats import WorkerStats
from tools.reference.markdown import table


class Family(NamedTuple):
    """A metric family, as the manual lists it."""

    name: str
    """As in the sample: with `_total` where it is a counter."""
    type: str
    labels: tuple[str, ...]
    help: str


def read_families() -> dict[str, list[Family]]:
    """Return the families that each role exports."""
    gateway = GatewayCollector(SharedCounts(WorkerStats(), None)).collect()
    return {"gateway": [*map(_family, gateway)], "auditor": _read_auditor_families()}


def write_listings() -> Mapping[str, str]:
    """Return a table of the families of a gateway alone, of both roles, and of an auditor alone."""
    gateway, auditor = read_families().values()
    shared = {family.name for family in gateway} & {family.name for family in auditor}
    return {
        "gateway": _table(family for family in gateway if family.name not in shared),
        "both": _table(family for family in auditor if family.name in shared),
        "auditor": _table(family for family in auditor if family.name not in shared),
    }


def _table(families: Iterable[Family]) -> str:
    rows = ((f"`{family.name}{_write_labels(family)}`", family.type, family.help) for family in families)
    return table(("family", "type", "meaning"), rows)


def _write_labels(family: Family) -> str:
    return f"{{{','.join(family.labels)}}}" if family.labels else ""


def _family(metric: Metric) -> Family:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return Family(name, metric.type, tuple(getattr(metric, "_labelnames", ())), metric.documentation)


def _read_auditor_families() -> list[Family]:
    with tempfile.TemporaryDirectory() as directory:
        of_features = asyncio.run(_read_features(Path(directory)))
    families = [*map(_family, [*AuditorMetrics(DriftSettings()).collect(), *of_features])]
    for live in (*OWN, THRESHOLD, ALARM, DAMAGED):
        name = f"biasgate_{live.name}{'_total' if live.type == 'counter' else ''}"
        families.append(Family(name, live.type, ("stream",) if live is DAMAGED else SERIES, live.help))
    return families


async def _read_features(directory: Path) -> list[Metric]:
    """Return the families of features in an auditor on an empty store."""
    config = validate({"store": {"url": f"sqlite:///{directory / 'biasgate.db'}"}})
    limiters = ConcurrencyLimiters(config.audits)
    database = await Database.open(config.store.url)
    context = AuditorContext(
        config=config,
        database=database,
        queue=open_queue(database),
        enabled_auditors=EnabledAuditors(config, limiters, b"secret"),
        limiters=limiters,
        settings=DriftSettings(),
        secret=b"secret",
        stop=asyncio.Event(),
    )
    parts = parts_of(FEATURES.values(), context)
    metrics = [metric for part in parts for metric in await part.families()]
    for part in parts:
        await part.aclose()
    await context.enabled_auditors.close()
    await context.queue.close()
    await database.close()
    await limiters.aclose()
    return metrics
