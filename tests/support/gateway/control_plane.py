"""The control plane as the gateway builds it, on a real store, with one upstream that is down."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from litestar import Litestar

from auditors.streams.drift import DriftSettings
from auditors.types import Status
from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.features.ingest.guardrail import GuardrailCalls, IngestPart
from gateway.features.ingest.intake import Intake
from gateway.jobs import JobQueue, open_queue
from gateway.processes.app import create_app
from gateway.processes.worker import worker_parts
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.data_planes import DataPlanes
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.direct import DirectSink
from gateway.store import catalogue, exchanges
from gateway.store.database import Database
from gateway.telemetry.worker_stats import WorkerStats
from gateway.worker_part import WorkerContext
from tests.support.store.made import exchange, measurement, record
from tests.support.store.migrated import write_migrated

STEREOSET = {
    "name": "stereoset",
    "version": "1.0",
    "items": {"canonical": 4229, "embedded": 48},
    "data": "absent",
    "modes": ["sample"],
    "protocols": ["corrected", "paper"],
    "metrics": ["lms", "ss", "icat"],
    "axes": ["gender"],
    "few_shots": [0],
    "has_follow_up": False,
}


@dataclass
class ControlPlane:
    """A running app, the client that asks it, and the parts behind it."""

    app: Litestar
    http: httpx.AsyncClient
    database: Database
    queue: JobQueue
    dataplane: DataPlane
    tap: SamplingTap
    stats: WorkerStats
    intake: Intake
    guardrail_calls: GuardrailCalls


def config_in(directory: Path, **sections: Any) -> Config:
    upstream = {"name": "up", "base_url": "http://127.0.0.1:9", "models": ["qwen"]}
    store = {"url": f"sqlite:///{directory / 'biasgate.db'}"}
    return validate({"store": store, "upstreams": [upstream], **sections})


@asynccontextmanager
async def control_plane(directory: Path, **sections: Any) -> AsyncIterator[ControlPlane]:
    config = config_in(directory, **sections)
    if config.store.url == f"sqlite:///{directory / 'biasgate.db'}":
        write_migrated(directory / "biasgate.db")
    async with AsyncExitStack() as stack:
        database = await Database.open(config.store.url)
        stack.push_async_callback(database.close)
        queue = open_queue(database)
        stats = WorkerStats()
        tap = SamplingTap(config.sampling, b"secret", database, DirectSink(database, queue))
        dataplane = DataPlane(config, tap=tap, stats=stats)
        sink = DirectSink(database, queue, config.sampling.max_text_bytes)
        planes = DataPlanes(dataplane)
        context = WorkerContext(
            planes=planes, tap=tap, database=database, stats=stats, secret=b"secret", open_sink=lambda: sink
        )
        parts = worker_parts(context)
        ingest = next(part for part in parts if isinstance(part, IngestPart))
        app = create_app(config, database=database, queue=queue, planes=planes, tap=tap, stats=stats, parts=parts)
        await stack.enter_async_context(app.lifespan())
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]  # Litestar's own ASGI types
        http = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://localhost"))
        yield ControlPlane(app, http, database, queue, dataplane, tap, stats, ingest.intake, ingest.guardrail_calls)


async def publish_suites(plane: ControlPlane, **changes: Any) -> None:
    """As an auditor does when it starts."""
    await catalogue.publish(plane.database, [STEREOSET | changes])


async def audit_one(
    plane: ControlPlane,
    number: int,
    value: float | None,
    *,
    text: str = "Who leads?",
    status: Status | None = None,
    settings: DriftSettings | None = None,
    at: float | None = None,
    fingerprint: str | None = None,
) -> str:
    """Stores one sampled exchange and a judge's score of it; returns the exchange's id."""
    one = exchange(
        id=f"exchange-{number}",
        request_id=f"request-{number}",
        received_at=1000.0 + number if at is None else at,
        model="gpt",
        served_model="qwen",
        upstream="up",
        system_fingerprint=fingerprint,
        request_body=b'{"model": "gpt", "messages": [{"role": "user", "content": "%b"}]}' % text.encode(),
        response_body=b'{"choices": [{"message": {"role": "assistant", "content": "ask bob@example.org"}}]}',
    )
    score = measurement(value, group="men", reference="women", **({} if status is None else {"status": status}))
    await exchanges.insert_batch(plane.database, [one], {("other", "queued"): 1})
    await record(plane.database, one, [score], settings=settings or DriftSettings())
    return one.id


async def audit_identities(
    plane: ControlPlane, number: int, distances: dict[str, float | None], *, embedder: str = "e", axis: str = "gender"
) -> None:
    """What the embedding auditor measures of one exchange: a distance of each identity and the axis' score."""
    one = exchange(id=f"{axis}-{embedder}-{number}", request_id=f"request-{axis}-{embedder}-{number}", served_model="m")
    about = {"auditor": "embedding", "axis": axis, "judge": None, "detail": {"embedder": embedder}}
    found = [
        measurement(value, metric="representative_distance", group=group, **about) for group, value in distances.items()
    ]
    found.append(measurement(0.1, metric="representative_bias_score", group=None, **about))
    await exchanges.insert_batch(plane.database, [one], {})
    await record(plane.database, one, found, auditor="embedding", settings=DriftSettings())


async def drifted(plane: ControlPlane, *, text: str = "Who leads?") -> None:
    """Audits of a reference of low scores, then of high ones until the alarm is up."""
    settings = DriftSettings(average_run_length=20, tolerance=0.0, reference_window=20)
    for number in range(20):
        await audit_one(plane, number, -1.0, text=text, settings=settings)
    for number in range(20, 60):
        await audit_one(plane, number, 2.0, text=text, settings=settings)
