"""/console/audits: suite runs to start, to follow, to read item by item and to compare; schedules."""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.api.audits import audit_of, require_audit
from gateway.api.dependencies import Asked, Plane, Settings, Store
from gateway.config.audit_request import MITIGATIONS
from gateway.config.schema import Config
from gateway.console.comparison_view import Drawn, drawn
from gateway.console.rendering import View
from gateway.console.showing import PageFrame, is_for_changes
from gateway.control_keys import Holder
from gateway.feature import templates_at
from gateway.reading import run_views, viewer_forms
from gateway.reading.run_forms import Filter, Gate, GateWanted, ItemsWanted, place
from gateway.store import catalogue, runs, schedules
from gateway.store.database import Database
from gateway.store.runs import Run, Status


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One estimate, as result.json has it."""

    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0
    n_excluded: int = 0
    reason: str | None = None
    extra: dict[str, Any] = {}

    @property
    def by_groups(self) -> list[str]:
        """Return the groups that a spread over groups favours, and its test."""
        from benchmarks.figures.display import group_words  # a worker starts without the benchmarks

        return group_words(self.extra)

    @property
    def is_whole(self) -> bool:
        """Return whether the number is of an axis or of all; of these also by the parts that a suite tells apart."""
        return (self.group, self.reference) == (None, None) and None in (self.axis, self.subset)


class _Judge(msgspec.Struct, frozen=True):
    reason: str | None = None
    warnings: list[str] = []


class _Dataset(msgspec.Struct, frozen=True):
    left_out: dict[str, int] = {}


class _Result(msgspec.Struct, frozen=True):
    estimates: list[Number] = []
    counts: dict[str, int] = {}
    not_assessable: str | None = None
    judge: _Judge | None = None
    dataset: _Dataset = _Dataset()


class Numbers(msgspec.Struct, frozen=True):
    """Numbers of a run of any version: fields that its result does not have are left out."""

    whole: list[Number]
    """Whole numbers, those of all axes together first."""
    n_parts: int
    """Numbers of groups and parts of the data, which are in the report."""
    counts: dict[str, int]
    not_assessable: str | None
    """Why the run says nothing about its model."""
    judge_fault: str | None
    judge_warnings: list[str]
    """Sentences about what keeps the judge from judging."""
    left_out: dict[str, int]
    """Own prompts that were not asked, by reason."""


async def numbers(database: Database, audit_id: str) -> Numbers:
    """Return the numbers of a run; none of a result that cannot be read."""
    run = await runs.get(database, audit_id)
    return await asyncio.to_thread(read_numbers, None if run is None else run.result)


def read_numbers(result: str | None) -> Numbers:
    """Return the numbers of a result.json; none of a result that cannot be read."""
    try:
        parsed: _Result = msgspec.json.decode(result or "{}", type=_Result)
    except msgspec.DecodeError:
        parsed = _Result()
    whole = [estimate for estimate in parsed.estimates if estimate.is_whole]
    whole.sort(key=lambda estimate: estimate.axis is not None)
    judge = parsed.judge or _Judge()
    return Numbers(
        whole=whole,
        n_parts=len(parsed.estimates) - len(whole),
        counts=parsed.counts,
        not_assessable=parsed.not_assessable,
        judge_fault=judge.reason,
        judge_warnings=judge.warnings,
        left_out=parsed.dataset.left_out,
    )


TAB = "/console/audits"
MOST_RUNS = 100
MOST_OTHERS = 20
ITEMS_A_PAGE = 25
FILTERS: dict[Filter, str] = {
    "failed": "failed: no reply, or thinking without an end",
    "unrelated": "unrelated",
    "refusal": "refusal",
    "malformed": "malformed",
    "ok": "read",
}


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
            data = {
                "runs": [audit_of(run, request.user) for run in listed_runs],
                "most": MOST_RUNS,
                "chosen": {"model": model, "suite": suite, "status": run_status},
                "schedules": await schedules.list_schedules(database),
                "suites": sorted(await catalogue.read(database), key=lambda entry: str(entry["name"])),
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
        numbers_cache: list[Numbers] = []

        async def build() -> View:
            run = await _run(database, audit_id)
            if run.status == "done" and not numbers_cache:
                numbers_cache.append(await numbers(database, audit_id))
            data = {
                "run": audit_of(run, request.user),
                "numbers": numbers_cache[0] if numbers_cache else None,
                "others": await _list_comparable(database, run),
                "gate": gate,
                "required": requirements,
                "downloads": templates_at("audit.downloads"),
            }
            return View(template="audit.html", title=f"{run.suite}, {run.model}", tab=TAB, data=data)

        return await pages.shown(request, build)

    @get("/{audit_id:str}/items")
    async def items(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        config: Settings,
        audit_id: FromPath[str],
        read_as: Annotated[str, QueryParameter(name="status")] = "",
        changed_from: FromQuery[str] = "",
        after: FromQuery[str] = "",
    ) -> Response[Any]:
        status = next((name for name in FILTERS if name == read_as), None)
        query = ItemsWanted(
            audit_id=audit_id,
            status=status,
            changed_from=changed_from or None,
            after=place(after or None),
            limit=ITEMS_A_PAGE,
        )
        items_page = None if is_for_changes(request) else (await run_views.items(config, query)).read()

        async def build() -> View:
            run = await _run(database, audit_id)
            data = {
                "run": audit_of(run, request.user),
                "found": items_page,
                "filters": FILTERS,
                "status": status or "",
                "changed_from": changed_from,
                "others": await _list_comparable(database, run),
                "is_first": not after,
            }
            return View(template="audit_items.html", title=f"Items of {run.suite}, {run.model}", tab=TAB, data=data)

        return await pages.shown(request, build)


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
