"""/console/audits: suite runs to start, to follow, to read item by item and to compare; schedules."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from markupsafe import Markup

from gateway.api.audits import audit_of, require_audit
from gateway.api.dependencies import Asked, Plane, Settings, Store
from gateway.config.audit_request import MITIGATIONS
from gateway.config.schema import Config
from gateway.console.comparison_view import Drawn, drawn
from gateway.console.rendering import View, number, words
from gateway.console.showing import PageFrame, is_for_changes
from gateway.control_keys import Holder
from gateway.feature import templates_at
from gateway.reading import run_views, viewer_forms
from gateway.reading.differences import Piece, differences
from gateway.reading.run_forms import MOST_COUNTED, Gate, GateWanted, ItemsWanted, ShownItem, place
from gateway.store import catalogue, runs, schedules
from gateway.store.database import Database
from gateway.store.runs import Run, Status


class _Result(msgspec.Struct, frozen=True):
    estimates: list[dict[str, Any]] = []
    not_assessable: str | None = None


_HEADLINES: dict[tuple[str, float | None], str] = {}
MOST_HEADLINES = 1_000


async def headlines(database: Database, listed: Sequence[Run], suites: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the headline number of each finished run, by its id; none of a suite that no auditor has."""
    keys = {suite["name"]: suite.get("headline") for suite in suites}
    finished = [run for run in listed if run.status == "done" and keys.get(run.suite)]
    if len(_HEADLINES) > MOST_HEADLINES:
        _HEADLINES.clear()
    for run in finished:
        if (run.id, run.heartbeat_at) not in _HEADLINES:
            result = await runs.result_of(database, run.id) or "{}"
            _HEADLINES[run.id, run.heartbeat_at] = await asyncio.to_thread(headline, result, keys[run.suite] or ())
    return {run.id: _HEADLINES.get((run.id, run.heartbeat_at), "") for run in finished}


def headline(result: str, key: Sequence[str | None]) -> str:
    """Return the number of a result.json with this metric, axis, group, reference and part, in words."""
    try:
        parsed = msgspec.json.decode(result, type=_Result)
    except msgspec.DecodeError:
        return "unreadable"
    keys = [
        [each.get(name) for name in ("metric", "axis", "group", "reference", "subset")] for each in parsed.estimates
    ]
    estimate = parsed.estimates[keys.index([*key])] if [*key] in keys else {}
    if parsed.not_assessable or "not_assessable" in estimate.get("extra", {}):
        return "not assessable"
    if estimate.get("value") is None:
        return "undefined"
    lower, upper = (number(estimate.get(end), 2) for end in ("lower", "upper"))
    ends = "no interval" if estimate.get("lower") is None else f"{lower} to {upper}"
    return f"{words(estimate['metric'])} {number(estimate['value'], 2)} ({ends})"


def cut_summary(run: Run | None) -> Markup:
    """Return the cards, the table by axis and the first figure of a run's report; empty for an earlier version's."""
    report = (run and run.report) or ""
    part = report.partition("<!--summary-->")[2].partition("<!--/summary-->")[0]
    return Markup(part)  # noqa: S704 - the template of the report escapes every text (tests/gateway/api/test_audit_views.py)


TAB = "/console/audits"
MOST_RUNS = 100
MOST_OTHERS = 20
ITEMS_A_PAGE = 15
ITEM_FILTERS = ("status", "axis", "group", "reading", "verdict", "changed_from")


class AuditPagesController(Controller):
    """Runs of suites."""

    path = TAB
    include_in_schema = False

    @get("/")
    async def audits(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        dataplane: Plane,
        model: FromQuery[str | None] = None,
        suite: FromQuery[str | None] = None,
        run_status: Annotated[Status | None, QueryParameter(name="status")] = None,
    ) -> Response[Any]:
        models = set(dataplane.config.aliases).union(*(upstream.models for upstream in dataplane.upstreams))

        async def build() -> View:
            listed_runs = await runs.list_runs(database, model=model, suite=suite, status=run_status, limit=MOST_RUNS)
            suites = sorted(await catalogue.read(database), key=lambda entry: str(entry["name"]))
            data = {
                "headlines": await headlines(database, listed_runs, suites),
                "runs": [audit_of(run, request.user) for run in listed_runs],
                "most": MOST_RUNS,
                "chosen": {"model": model, "suite": suite, "status": run_status},
                "schedules": await schedules.list_schedules(database),
                "suites": suites,
                "models": sorted(models),
                "mitigations": MITIGATIONS,
            }
            return View(template="audits.html", title="Audits", tab=TAB, data=data)

        return await pages.shown(request, build)

    @get("/compare")
    async def compare(
        self, request: Asked, pages: PageFrame, database: Store, config: Settings, a: FromQuery[str], b: FromQuery[str]
    ) -> Response[Any]:
        """Compare two runs; if they are not finished, show how far they are: the page is loaded again when they are."""
        is_finished = all([(await _run(database, run_id)).status == "done" for run_id in (a, b)])
        comparison = None if is_for_changes(request) or not is_finished else await _compared(config, a, b, request.user)

        async def build() -> View:
            two = [await _run(database, run_id) for run_id in (a, b)]
            unfinished = [audit_of(run, request.user) for run in two if run.status != "done"]
            data = {"a": two[0], "b": two[1], "found": comparison, "unfinished": unfinished}
            return View(template="audit_comparison.html", title="Two runs compared", tab=TAB, data=data)

        return await pages.shown(request, build)

    @get("/{audit_id:str}")
    async def audit(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        config: Settings,
        audit_id: FromPath[str],
        require: FromQuery[list[str] | None] = None,
    ) -> Response[Any]:
        requirements = [text.strip() for text in require or [] if text.strip()]
        gate = None if not requirements or is_for_changes(request) else await _gated(config, audit_id, requirements)
        summary: list[Markup] = []

        async def build() -> View:
            run = await _run(database, audit_id)
            if run.status == "done" and not summary:
                summary.append(cut_summary(await runs.get(database, audit_id)))
            data = {
                "run": audit_of(run, request.user),
                "summary": summary[0] if summary else None,
                "others": await _list_comparable(database, run),
                "gate": gate,
                "required": requirements,
                "downloads": templates_at("audit.downloads"),
            }
            return View(template="audit.html", title=f"{run.suite}, {run.model}", tab=TAB, data=data)

        return await pages.shown(request, build)

    @get("/{audit_id:str}/items")
    async def items(
        self, request: Asked, pages: PageFrame, database: Store, config: Settings, audit_id: FromPath[str]
    ) -> Response[Any]:
        fields = {name: request.query_params.get(name, "") for name in (*ITEM_FILTERS, "after")}
        chosen: dict[str, Any] = {name: value or None for name, value in fields.items()}
        chosen["after"] = place(chosen["after"])
        query = ItemsWanted(audit_id=audit_id, **chosen, pairs=True, limit=ITEMS_A_PAGE)
        items_page = None if is_for_changes(request) else (await run_views.items(config, query)).read()

        async def build() -> View:
            run = await _run(database, audit_id)
            data = {
                "run": audit_of(run, request.user),
                "found": items_page,
                "sets": None if items_page is None else await asyncio.to_thread(mark_sets, items_page.items),
                "most_counted": MOST_COUNTED,
                "asked": fields,
                "address": f"{TAB}/{audit_id}/items?{urlencode({name: fields[name] for name in ITEM_FILTERS})}",
                "others": await _list_comparable(database, run),
            }
            return View(template="audit_items.html", title=f"Items of {run.suite}, {run.model}", tab=TAB, data=data)

        return await pages.shown(request, build)


def mark_sets(items: Sequence[ShownItem]) -> list[list[tuple[ShownItem, list[Piece] | None]]]:
    """Return the items of a page set by set, with their questions where they differ from the first of their set."""
    marked = []
    for _, of_set in groupby(items, key=lambda item: (item.set_id or item.item_id, item.sample)):
        members = [*of_set]
        compared = [differences(members[0].prompt or "", member.prompt or "") for member in members[1:]]
        pieces = [*[of_first for of_first, _ in compared[:1]], *[of_other for _, of_other in compared]]
        marked.append(list(zip_longest(members, pieces)))
    return marked


async def _run(database: Database, audit_id: str) -> Run:
    return require_audit(audit_id, await runs.summary(database, audit_id))


async def _list_comparable(database: Database, run: Run) -> list[Run]:
    if run.status != "done":
        return []
    finished = await runs.list_runs(database, suite=run.suite, status="done", limit=MOST_OTHERS + 1)
    return [other for other in finished if other.id != run.id][:MOST_OTHERS]


async def _gated(config: Settings, audit_id: str, requirements: list[str]) -> Gate:
    query = GateWanted(audit_id=audit_id, requirements=requirements, allow_unvalidated_judge=False)
    return (await run_views.gate(config, query)).read()


async def _compared(config: Config, a: str, b: str, holder: Holder) -> Drawn:
    comparison, _ = await run_views.compared(config, a, b)
    return await drawn(viewer_forms.shown_comparison(comparison, holder))
