"""Sets runs side by side, part by part, with the numbers that papers print of the same; and names runs apart."""

from collections.abc import Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures.display import number
from benchmarks.published.tables import NO_INTERVAL, Published, Table, numbers, tables_of
from benchmarks.reporting.headline import heading, key_of, part
from benchmarks.reporting.leaderboard import settings
from benchmarks.run.result import Result
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import Scale

MOST_COLUMNS = 6
"""A table with more parts has them as its rows."""
MOST_ROWS, MOST_HEADLINE_ROWS = 12, 40
"""A longer table is folded; so is one of the headline metric."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of some runs in all its parts."""

    title: str
    metric: str
    scale: Scale
    head: list[str]
    rows: list[list[Estimate | str | None]]
    """A name, then own numbers and printed ones; None for a missing number."""
    notes: list[str]
    is_folded: bool


def names(results: Sequence[Result]) -> list[str]:
    """Return the model of each run, with the settings that tell several runs of it on a suite apart."""
    return [_name(place, results) for place in range(len(results))]


def _name(place: int, results: Sequence[Result]) -> str:
    result, settings_of = results[place], _all_settings(results[place])
    alike_runs = [run for run in results if (run.suite, run.model) == (result.suite, result.model)]
    rivals = [_all_settings(run) for run in alike_runs if run is not result]
    words = [
        _setting(name, value) for name, value in settings_of.items() if any(rival[name] != value for rival in rivals)
    ]
    return " · ".join([result.model, *words]) + (f" (run {place + 1})" if settings_of in rivals else "")


def _all_settings(result: Result) -> dict[str, object]:
    ways = {"protocol": result.protocol, "mode": result.mode, "data": result.dataset.kind}
    rest = dict(settings(result)) | {"data sha256": result.dataset.sha256[:8]}
    return {**ways, "mitigation": result.mitigation, **rest, "seed": result.seed}


def _setting(name: str, value: object) -> str:
    if value in (None, "", NONE):
        return "the protocol's temperature" if name == "temperature" else f"no {name}"
    return f"{name} {value}"


def alike(results: Sequence[Result]) -> list[list[int]]:
    """Return the places of the runs that were made in the same way, together."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for place, result in enumerate(results):
        kinds.setdefault((*result.series.values(), result.mitigation, *settings(result).values()), []).append(place)
    return list(kinds.values())


def grids(results: Sequence[Result], run_names: Sequence[str]) -> list[Grid]:
    """Return the papers' tables that have a number of these runs, headline first; without any, the suite's parts.

    Runs on embedded items cannot be compared with the papers' numbers, which are left out beside them.
    """
    first = results[0]
    suite = registry.known(first.suite)
    if suite is None:
        return []
    is_published = first.dataset.kind != "embedded" and not first.dataset.name.startswith("own ")
    by_run = [{key_of(estimate): estimate for estimate in result.estimates} for result in results]
    headline = suite.headline
    grids = []
    for table in sorted(tables_of(suite.name), key=lambda table: table.metric != headline.metric):
        printed = numbers(table)
        keys = list(dict.fromkeys(entry.key for entry in printed))
        is_measured = any(key in own for key in keys for own in by_run)
        is_alike = (table.few_shot, table.mitigation) == (first.few_shot, first.mitigation)
        if is_measured and is_alike and is_published:
            notes = [table.caveat, *notes_on(printed)]
            grids.append(_grid(suite.scales[table.metric], keys, by_run, run_names, first, table, notes))
    if len(results) > 1 and any(headline[1:]) and not any(grid.metric == headline.metric for grid in grids):
        kind = (headline.metric, headline.subset, headline.group is None)
        alike_keys = dict.fromkeys(
            key for own in by_run for key in own if (key.metric, key.subset, key.group is None) == kind
        )
        grids.insert(0, _grid(suite.scales[headline.metric], list(alike_keys), by_run, run_names, first, None, []))
    return grids


def _grid(
    scale: Scale,
    keys: Sequence[CellKey],
    by_run: Sequence[dict[CellKey, Estimate]],
    run_names: Sequence[str],
    first: Result,
    table: Table | None,
    notes: Sequence[str],
) -> Grid:
    columns: dict[str, list[Estimate | str | None]] = {}
    for name, own in zip(run_names, by_run, strict=True):
        columns[name] = [own.get(key) for key in keys]
    printed = numbers(table) if table else []
    by_place = {(entry.model, entry.key): _words(entry) for entry in printed}
    for model in dict.fromkeys(entry.model for entry in printed):
        columns[f"{model} (published)"] = [by_place.get((model, key)) for key in keys]
    parts = [part(*key[1:]) for key in keys]
    rows: list[list[Estimate | str | None]]
    if len(parts) > MOST_COLUMNS:
        head = ["part", *columns]
        rows = [[label, *(column[at] for column in columns.values())] for at, label in enumerate(parts)]
    else:
        head = ["model", *parts]
        rows = [[name, *column] for name, column in columns.items()]
    source = f"{table.about} · {table.source}" if table else ""
    suite = registry.known(first.suite)
    is_headline = suite is not None and keys[0].metric == suite.headline.metric
    return Grid(
        title=f"{heading(keys[0].metric)}{source}",
        metric=keys[0].metric,
        scale=scale,
        head=head,
        rows=rows,
        notes=[*filter(None, notes), *([f"{NO_INTERVAL[0].upper()}{NO_INTERVAL[1:]}."] if table else [])],
        is_folded=len(rows) > (MOST_HEADLINE_ROWS if is_headline else MOST_ROWS),
    )


def _words(entry: Published) -> str:
    identity = f" ({entry.identity})" if entry.identity else ""
    return f"{number(entry.value, entry.decimals)}{entry.mark}{identity}"


def notes_on(printed: Sequence[Published]) -> list[str]:
    """Return the notes on printed numbers; one on the same number of every model names only its part."""
    models_of: dict[str, dict[str, list[str]]] = {}
    for entry in printed:
        if entry.note:
            models_of.setdefault(entry.note, {}).setdefault(part(*entry.key[1:]), []).append(entry.model)
    n_models = len({entry.model for entry in printed})
    notes = []
    for note, by_part in models_of.items():
        where = [
            label if len(models) == n_models else f"{', '.join(models)}, {label}" for label, models in by_part.items()
        ]
        notes.append(f"{'; '.join(where)}: {note}.")
    return notes
