"""Calibrations of judges over HTTP: what `judge calibrate` found, kept as it was written."""

from typing import Any

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from gateway.api.dependencies import Store
from gateway.api.problems import announced
from gateway.store import calibrations
from gateway.store.calibrations import Calibration, Kept, written


class CalibrationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file that `biasgate judge calibrate --out` wrote."""

    calibration: dict[str, Any]


class JudgesController(Controller):
    """Lists which judges were compared with people, and how well they agree."""

    path = "/judges/calibrations"
    tags = ("judges",)

    @get("/", summary="Calibrations, newest first", responses=announced())
    async def calibrations(self, database: Store, judge_model: FromQuery[str | None] = None) -> list[Calibration]:
        return await calibrations.list_calibrations(database, judge_model=judge_model)

    @get("/{digest:str}", summary="A calibration; a digest's beginning is enough", responses=announced(400, 404))
    async def calibration(self, digest: FromPath[str], database: Store) -> Kept:
        return await calibrations.get(database, digest)

    @post("/", summary="Store a calibration: the content of the file of --out", responses=announced(400))
    async def keep(self, data: JSONBody[CalibrationRequest], database: Store) -> Kept:
        return await calibrations.keep(database, written(data.calibration))
