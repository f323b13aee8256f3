"""The API of schedules: which suites run regularly, and when."""

from typing import Annotated

import msgspec
from litestar import Controller, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from gateway.api.audits import known_suites, require_model
from gateway.api.dependencies import Asked, Plane, Store
from gateway.api.problems import announced
from gateway.config.audit_request import AuditRequest, choose
from gateway.config.timing import SHORTEST_SECONDS, Timing
from gateway.reading.viewer_forms import shown_schedule
from gateway.store import schedules
from gateway.store.schedules import Schedule


class ScheduleRequest(AuditRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of `POST /audits`, under a name, with either `cron` or `every_seconds`."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    cron: str | None = None
    """Five fields, UTC: "0 3 * * 1" is Mondays at three."""
    every_seconds: Annotated[float, Meta(ge=SHORTEST_SECONDS)] | None = None


class SchedulesController(Controller):
    """An auditor starts what is due; times missed while none ran come to one start."""

    path = "/schedules"
    tags = ("audits",)

    @post("/", summary="Run suites at the times of either `cron` or `every_seconds`", responses=announced(404, 409))
    async def create(self, data: JSONBody[ScheduleRequest], database: Store, dataplane: Plane) -> Schedule:
        timing = Timing.of(data.cron, data.every_seconds)
        fields = msgspec.structs.asdict(data)
        request = AuditRequest(**{field.name: fields[field.name] for field in msgspec.structs.fields(AuditRequest)})
        choose(request, await known_suites(database))
        require_model(data.model, dataplane)
        return await schedules.create(database, data.name, timing, request)

    @get("/", summary="Schedules with next time, last runs, reasons of skipped times", responses=announced())
    async def schedules(self, request: Asked, database: Store) -> list[Schedule]:
        return [shown_schedule(schedule, request.user) for schedule in await schedules.list_schedules(database)]

    @get("/{schedule_id:str}", summary="One schedule", responses=announced(404))
    async def schedule(self, request: Asked, schedule_id: FromPath[str], database: Store) -> Schedule:
        return shown_schedule(await schedules.get(database, schedule_id), request.user)

    @delete("/{schedule_id:str}", summary="End a schedule; its runs stay", responses=announced(404, 409))
    async def remove(self, schedule_id: FromPath[str], database: Store) -> None:
        await schedules.delete(database, schedule_id)
