"""The models and runs of a paper's recipe: planned, taken from earlier runs where they fit, and asked."""

import asyncio
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.clients.embedders import shown_name
from auditors.structs import combine
from auditors.text.user_files import read_utf8
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import directory
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.stopping import in_thread, unless_stopped
from benchmarks.suites import registry
from benchmarks.suites.common.mitigation import find
from benchmarks.suites.common.observations import Observations
from benchmarks.suites.protocol import DataKind, Observation, Reply
from gateway.cli.audit import jobs
from gateway.cli.audit.jobs import Job
from gateway.cli.audit.running import END_SECONDS, Manner, run_one
from gateway.features.papers.recipe import Recipe, Run

MOST_PARAMETERS = 100_000.0
"""Billions; a larger number is a plain count."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry [[models]]."""

    name: str
    base_url: str
    model: str | None = None
    """Name as the server knows it; unset: `name`."""
    api_key_env: str | None = None
    provider: str = ""
    family: str | None = None
    parameters: float | None = None
    """Billions of parameters."""
    released: date | None = None
    quantisation_of: str | None = None
    """Name of the model of this file that it is a quantised copy of."""
    without_filters: str | None = None
    """Name of the entry of this file that is the same model, asked without the filters of a gateway."""

    @property
    def served(self) -> str:
        return self.model or self.name

    @property
    def is_copy(self) -> bool:
        """True if it is another model of this file, quantised or filtered: one draw less."""
        return self.quantisation_of is not None or self.without_filters is not None

    @property
    def folder(self) -> str:
        """Name of the folder of its runs."""
        return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in self.name).lstrip(".")


def read_models(path: Path) -> list[Model]:
    """Return the models in the file's order. Raises BenchmarkError, one line, for the first mistake in it."""
    try:
        content = tomllib.loads(read_utf8(path).decode())
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise BenchmarkError(f"{path}: no TOML: {exc}") from exc
    entries = content.pop("models", None)
    if content:
        raise BenchmarkError(f'{path}: unknown key "{next(iter(content))}": a model is a [[models]]')
    if not isinstance(entries, list) or not entries:
        raise BenchmarkError(f"{path}: no model: add a [[models]] with name and base_url")
    models = [_model(path, number, entry) for number, entry in enumerate(entries, 1)]
    names = {model.name for model in models}
    folders = Counter(model.folder.casefold() for model in models)
    for model in models:
        if folders[model.folder.casefold()] > 1:
            raise BenchmarkError(f'{path}: two models have runs in a folder "{model.folder}": use different names')
        for key in ("quantisation_of", "without_filters"):
            original = getattr(model, key)
            if original is not None and (original not in names or original == model.name):
                raise BenchmarkError(f'{path}: model "{model.name}": {key} "{original}" is no other model here')
    return models


def _model(path: Path, number: int, entry: Any) -> Model:
    name = entry.get("name") if isinstance(entry, dict) else None
    where = f"{path}: model {number}" + (f' "{name}"' if isinstance(name, str) else "")
    try:
        model = msgspec.convert(entry, Model)
        address = urlsplit(model.base_url)
    except (msgspec.ValidationError, ValueError) as exc:
        raise BenchmarkError(f"{where}: {exc}") from None
    if not model.folder:
        raise BenchmarkError(f"{where}: name must have a letter or digit")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise BenchmarkError(f'{where}: base_url "{model.base_url}" must be like http://127.0.0.1:8000')
    if model.parameters is not None and not 0 < model.parameters <= MOST_PARAMETERS:
        raise BenchmarkError(f"{where}: parameters {model.parameters:g} must be in billions, e.g. 8.0")
    return model


Place = tuple[str, str]
"""Names of a model and of a run of the recipe."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command that hold for every run."""

    data: DataKind | None = None
    limit: int | None = None
    seed: int = 0
    judge: str | None = None
    judge_base_url: str | None = None
    judge_api_key_env: str | None = None
    embedder: str | None = None
    embedder_base_url: str | None = None
    concurrency: int | None = None

    def options(self, run: Run, model: str, evaluate: tuple[str, ...] = ()) -> RunOptions:
        suite, mitigation = registry.find(run.suite), find(run.mitigation)
        kinds: tuple[DataKind | None, ...] = (self.data, run.data, "canonical", "embedded")
        return combine(
            RunOptions,
            run,
            self,
            model=model,
            limit=min((limit for limit in (self.limit, run.limit) if limit is not None), default=None),
            data=next(kind for kind in kinds if kind is not None and kind in suite.n_items),
            mitigation=mitigation.name,
            mitigation_text=mitigation.text,
            judge_model=self.judge if suite.needs_judge else None,
            embedder=self.embedder if suite.needs_embedder and run.evaluates is None else None,
            evaluate=evaluate,
        )


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run of a model."""

    path: Path
    result: Result

    @property
    def observations(self) -> Observations:
        return directory.observations(self.path)


Outcomes = dict[Place, Finished | str]
"""Finished runs, and the reasons why the others are none."""


class Asking:
    """The finished runs of a recipe, and the jobs that are left."""

    def __init__(self, runs: Sequence[Run], models: Sequence[Model], settings: Settings, out: Path) -> None:
        self.runs, self.models, self.settings, self.out = runs, models, settings, out
        self.outcomes: Outcomes = {}
        self._plans: dict[str, Plan] = {}
        for run in runs:
            try:
                self._plans[run.name] = prepare(settings.options(run, "model"))
            except BenchmarkError as exc:
                self.outcomes |= {(model.name, run.name): f"not run: {exc}" for model in models}

    def path(self, model: Model, run: Run) -> Path:
        return self.out / "runs" / model.folder / run.name

    def take(self, paths: Iterable[Path]) -> list[str]:
        """Use finished runs where they fit. Returns a line about each: where it is used, or why it is not."""
        return [f"{path}: {self._take(path)}" for path in paths]

    def _take(self, path: Path) -> str:
        try:
            result = directory.read_result(path)
        except BenchmarkError as exc:
            return f"not used: {exc}"
        candidates = [(self._misfits(path, result, model, run), model, run) for run, model in self._places()]
        misfits, model, run = min(candidates, key=lambda candidate: len(candidate[0]))
        if misfits:
            return f"not used; as {run.name} of {model.name} it does not fit: {'; '.join(misfits)}"
        if isinstance(self.outcomes.get((model.name, run.name)), Finished):
            return f"not used: {run.name} of {model.name} has a run already"
        self.outcomes[model.name, run.name] = Finished(path=path, result=result)
        return f"used as {run.name} of {model.name}"

    def _places(self) -> list[tuple[Run, Model]]:
        return [(run, model) for run in self.runs for model in self.models]

    def _misfits(self, path: Path, result: Result, model: Model, run: Run) -> list[str]:
        options, plan = self.settings.options(run, model.served), self._plans.get(run.name)
        servers = {urlsplit(each.base_url).netloc for each in self.models if each.served == model.served}
        embedder = options.embedder or result.provenance.embedder
        if options.embedder is not None and self.settings.embedder_base_url is None:
            embedder = shown_name(options.embedder)
        judges = {stamp.model for stamp in result.provenance.judge} if options.judge_model else set()
        pairs: dict[str, tuple[object, object]] = {
            "suite": (result.suite, options.suite),
            "model": (result.model, options.model),
            "suite version": (result.suite_version, registry.find(run.suite).version),
            "protocol": (result.protocol, options.protocol),
            "mode": (result.mode, options.mode),
            "data": (result.dataset.kind, plan.dataset.kind if plan else options.data),
            "data sha256": (result.dataset.sha256, plan.dataset.sha256 if plan else result.dataset.sha256),
            "subset": (result.subset, options.subset),
            "axes": (result.axes, options.axes),
            "mitigation": (result.mitigation, options.mitigation),
            "few-shot": (result.few_shot, options.few_shot),
            "temperature": (result.temperature, options.temperature),
            "samples": (result.samples, options.samples),
            "limit": (result.limit, options.limit),
            "judge": (judges or None, {options.judge_model} if judges else None),
            "embedder": (result.provenance.embedder, embedder),
        }
        if len(servers) > 1:
            pairs["server"] = (result.provenance.base_url_host, urlsplit(model.base_url).netloc)
        differing = [f"{name} {_word(is_)}, not {_word(want)}" for name, (is_, want) in pairs.items() if is_ != want]
        evaluates = (path / directory.MANIFEST).exists() and bool(directory.read_manifest(path).options.evaluate)
        if not differing and bool(run.evaluates) != evaluates:
            return ["it evaluates no texts of others" if run.evaluates else "it evaluates texts of others"]
        return differing

    def resume(self) -> None:
        """Use the finished runs of the folder. Raises BenchmarkError for a finished run that does not fit."""
        for run, model in self._places():
            path, place = self.path(model, run), (model.name, run.name)
            if isinstance(self.outcomes.get(place), Finished) or not (path / directory.RESULT).exists():
                continue
            result = directory.read_result(path)
            if misfits := self._misfits(path, result, model, run):
                raise BenchmarkError(
                    f"{path}: {'; '.join(misfits)}: use the options of its beginning, or another --out"
                )
            self.outcomes[place] = Finished(path=path, result=result)

    def jobs(self, *, evaluating: bool) -> list[tuple[Job, Place]]:
        """Return the jobs that are left: of the runs that evaluate texts of others, or of the others."""
        jobs = []
        for run, model in self._places():
            place = (model.name, run.name)
            if place in self.outcomes or bool(run.evaluates) != evaluating:
                continue
            try:
                jobs.append((self._job(run, model), place))
            except BenchmarkError as exc:
                self.outcomes[place] = f"not run: {exc}"
        return jobs

    def _job(self, run: Run, model: Model) -> Job:
        plan, settings = self._plans[run.name], self.settings
        options = settings.options(run, model.served)
        if run.evaluates:
            texts = [self.outcomes.get((writer.name, run.evaluates)) for writer in self.models]
            written = tuple(str(each.path) for each in texts if isinstance(each, Finished))
            if not written:
                raise BenchmarkError(f"no run {run.evaluates} is finished, whose texts it evaluates")
            options = settings.options(run, model.served, written)
            plan = prepare(options, outputs=jobs.outputs(options))
        judge_url = settings.judge_base_url if plan.suite.needs_judge else None
        about = directory.manifest(
            plan := msgspec.structs.replace(plan, options=options),
            base_url=jobs.without_password(model.base_url),
            api_key_env=model.api_key_env,
            judge_base_url=None if judge_url == model.base_url else jobs.without_password(judge_url),
            judge_api_key_env=settings.judge_api_key_env if plan.suite.needs_judge else None,
            embedder_base_url=jobs.without_password(settings.embedder_base_url) if plan.suite.needs_embedder else None,
        )
        return Job(self.path(model, run), plan, about)

    async def ask(self, todo: Sequence[tuple[Job, Place]], stop: asyncio.Event, manner: Manner, again: str) -> None:
        """Ask the jobs, one at a time of each server. A run that fails leaves its reason. Raises RunStopped."""
        by_server: dict[str | None, list[tuple[Job, Place]]] = {}
        for job, place in todo:
            by_server.setdefault(job.about.base_url, []).append((job, place))
        queues = [self._ask_one_server(queue, stop, manner, again) for queue in by_server.values()]
        ended = await asyncio.gather(*queues, return_exceptions=True)
        for exc in sorted((exc for exc in ended if exc is not None), key=lambda exc: isinstance(exc, RunStopped)):
            raise exc

    async def _ask_one_server(
        self, queue: Sequence[tuple[Job, Place]], stop: asyncio.Event, manner: Manner, again: str
    ) -> None:
        for job, place in queue:
            title = f"{place[0]}, {place[1]}"
            try:
                await in_thread(begin, job)
                work = run_one(job, stop, manner, title=title, again=again)
                result = await unless_stopped(stop, work, lambda: RunStopped(0, 0), within=END_SECONDS)
            except BenchmarkError as exc:
                self.outcomes[place] = f"not run: {exc}"
            else:
                self.outcomes[place] = Finished(path=job.path, result=result)


def begin(job: Job) -> None:
    """Begin the run's directory, or check that it was begun with the same options. Raises BenchmarkError."""
    if (job.path / directory.MANIFEST).exists():
        directory.demand_same(job.path, directory.read_manifest(job.path), job.about)
    else:
        directory.begin(job.path, job.about)


def _word(value: object) -> str:
    if isinstance(value, (tuple, set)):
        return ", ".join(sorted(map(str, value)))
    return "none" if value is None else str(value)


def of_recipe(recipe: Recipe, tables: Sequence[str] | None) -> Recipe:
    """Return the recipe with the tables named, and what belongs to them. Raises BenchmarkError for an unknown one."""
    if tables is None:
        return recipe
    offered = [table.id for table in recipe.tables]
    if unknown := [name for name in tables if name not in offered]:
        raise BenchmarkError(f'--tables "{unknown[0]}": the recipe has tables {", ".join(offered)}')
    chosen = tuple(table for table in recipe.tables if table.id in tables)
    runs = tuple(run for run in recipe.runs if any(run in recipe.runs_of(table) for table in chosen))
    relations = tuple(relation for relation in recipe.relations if relation.table in tables)
    kept = {*(run.name for run in runs), *tables, *(relation.id for relation in relations)}
    figures = tuple(figure for figure in recipe.figures if figure.of in kept)
    return msgspec.structs.replace(recipe, tables=chosen, runs=runs, relations=relations, figures=figures)


class _Label(msgspec.Struct, frozen=True):
    """A line of `annotate export`, as far as a choice needs it."""

    item_id: str | None
    annotator: str
    status: str
    value: float | str | None


def read_people(path: Path, outcomes: Outcomes) -> dict[str, list[Observation]]:
    """Return people's choices about the items of finished runs, by person. Raises BenchmarkError, one line."""
    finished = [outcome for outcome in outcomes.values() if isinstance(outcome, Finished)]
    items = {each.item.item_id: each.item for run in finished for each in run.observations if each.item.choices}
    people: dict[str, list[Observation]] = {}
    try:
        labels = [msgspec.json.decode(line, type=_Label) for line in read_utf8(path).splitlines() if line.strip()]
    except (OSError, msgspec.DecodeError) as exc:
        raise BenchmarkError(f"{path}: no lines of `biasgate annotate export`: {exc}") from exc
    for label in labels:
        item = items.get(label.item_id or "")
        if item is not None and label.status == "ok" and label.value in [choice.role for choice in item.choices]:
            reply = Reply(item_id=item.item_id, status="ok", parsed=label.value)
            people.setdefault(label.annotator, []).append(Observation(item, reply))
    if not people:
        raise BenchmarkError(f"{path}: none of its {len(labels):,} labels chooses in an item of these runs")
    return people


def failures(outcomes: Mapping[Place, Finished | str]) -> list[str]:
    """Return a line for each run that is missing."""
    return [f"{run} of {model}: {reason}" for (model, run), reason in outcomes.items() if isinstance(reason, str)]
