"""The API of live traffic: estimates, drift alarms, the sampling ledger."""

import re
from collections import Counter

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery

from auditors.streams.drift import DriftSettings
from gateway.api.dependencies import Settings, Store
from gateway.api.live_alarms import Alarm, alarm_of
from gateway.api.live_estimates import LiveEstimate, estimate_of, window_estimate_of, with_most_normal
from gateway.api.names import refuse_unknown
from gateway.api.problems import announced
from gateway.errors import NotFoundError, RequestError
from gateway.store import labels, ledger, streams, windows
from gateway.store.windows import Window, WindowSums

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Units of a window."""


class Ledger(msgspec.Struct, frozen=True):
    """Requests by outcome, in all and by stratum; a request is in exactly one outcome."""

    outcomes: dict[str, int]
    strata: dict[str, dict[str, int]]


class LiveController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)

    @get("/estimates", summary="Live estimates with intervals", responses=announced())
    async def estimates(
        self,
        database: Store,
        model: FromQuery[str | None] = None,
        axis: FromQuery[str | None] = None,
        auditor: FromQuery[str | None] = None,
        window: FromQuery[str | None] = None,
    ) -> list[LiveEstimate]:
        """Without `window`, over all audits since each stream began, with bounds that hold at all times at once.

        `window=500` takes the newest 500 audits of each stream, `window=90s` (or m, h, d) those of the last 90 seconds:
        for display, with an interval that holds at one time chosen beforehand.
        """
        refuse_unknown(auditor, axis)
        wanted = {"model": model, "axis": axis, "auditor": auditor}
        given = {name: value for name, value in wanted.items() if value is not None}
        listed = await streams.list_streams(database)
        if window is None:
            labelled = await labels.pairs(database)
            found = [estimate_of(stream, labelled.get(stream.id, ())) for stream in listed]
        else:
            sums = await windows.sums(database, _parsed(window))
            found = [window_estimate_of(stream, sums.get(stream.id, WindowSums()), window) for stream in listed]
        named = with_most_normal(found)
        return [one for one in named if all(getattr(one, name) == value for name, value in given.items())]

    @get("/alarms", summary="Streams whose drift alarm is up", responses=announced())
    async def alarms(self, database: Store, config: Settings) -> list[Alarm]:
        listed = await streams.list_streams(database)
        threshold = DriftSettings(average_run_length=config.drift.average_run_length).log_threshold(len(listed))
        return [alarm_of(stream, threshold) for stream in listed if stream.state.alarm]

    @post(
        "/alarms/{stream_id:str}/acknowledge",
        status_code=200,
        summary="Lower an alarm; its detector starts anew",
        responses=announced(404),
    )
    async def acknowledge(self, stream_id: FromPath[str], database: Store) -> LiveEstimate:
        stream = await streams.acknowledge(database, stream_id)
        if stream is None:
            raise NotFoundError(f'no live stream has the id "{stream_id}": GET /live/alarms lists those that alarm')
        return estimate_of(stream)

    @get("/ledger", summary="What became of every request", responses=announced())
    async def ledger(self, database: Store) -> Ledger:
        outcomes: Counter[str] = Counter()
        strata: dict[str, dict[str, int]] = {}
        for (stratum, outcome), count in (await ledger.counts(database)).items():
            outcomes[outcome] += count
            strata.setdefault(stratum, {})[outcome] = count
        return Ledger(dict(outcomes), strata)


def _parsed(window: str) -> Window:
    """`N` audits, or `N` and one of s, m, h, d. Raises RequestError for anything else."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd]?)", window)
    if match is None:
        raise RequestError(
            f'window "{window}" is neither a number of audits (500) nor a time (90s, 15m, 24h, 7d): give one of them'
        )
    number, unit = int(match[1]), match[2]
    return Window(audits=number) if not unit else Window(seconds=float(number * SECONDS[unit]))
