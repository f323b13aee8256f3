"""Ranks models by aspect and data set (protocols 3.8 [D], unlike the published ranks); ties could swap by chance.
Runs share a board by protocol, mode, kind of data and mitigation, and a row also by data, settings and judge.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec
import numpy as np

from auditors.metrics.ranking import RankRange, mean_rank, normalised_rank_scores, rank_ranges, ranks
from auditors.types import Estimate
from benchmarks.figures.figure import Figure
from benchmarks.reporting.headline import stated
from benchmarks.reporting.leaderboard_figure import figure
from benchmarks.run.result import Result, shown_axes, shown_fields
from benchmarks.run.score import LEVEL
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import MIN_CLUSTERS
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.common.rank_statistics import RankRule, declined_rate
from benchmarks.suites.protocol import JointTable
from benchmarks.suites.registry import SUITES


def rate(estimates: Sequence[Estimate], metric: str) -> float | None:
    """A rate of the whole axis, in percent; None when there is none or it is undefined."""
    whole = (e.value for e in estimates if e.metric == metric and e.group is None and e.subset is None)
    return next(whole, None)


def unrelated_rate(estimates: Sequence[Estimate]) -> float | None:
    """Percent; None when the suite has none or no reply arrived."""
    stored_rate = rate(estimates, "unrelated_rate")
    if stored_rate is not None:
        return stored_rate
    return next((e.value for e in estimates if (e.metric, e.group, e.subset) == ("share", "unrelated", None)), None)


NO_RUN = "no run"
MOST_UNDEFINED = 0.05
"""Share of resamples in which the ranking number may be undefined; with more the rank has no interval."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one row."""

    value: float | None = None
    by_chance: float | None = None
    """The average value for a model without any preference, if chance raises the number."""
    rank: float | None = None
    """Models that chance could swap share the better rank, where resamples are at hand; else equal values do."""
    is_tied: bool = False
    lower: int | None = None
    upper: int | None = None
    """95 % interval of the rank by value, over resampled questions."""
    is_assessable: bool = True
    """False: no rank, whatever the statistic; see `benchmarks.suites.common.assessable`."""
    unrelated: float | None = None
    """Percent of replies, refusals among them."""
    refused: float | None = None
    """Percent of replies."""
    declined: float | None = None
    """Percent of replies that decline or say that it cannot be told, where the suite calls that right."""
    reason: str | None = None
    """The reason why it has no rank, or its rank no interval."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    aspect: str
    suite: str
    words: str
    entries: list[Entry]
    """One a model of the leaderboard, in its order."""

    @property
    def is_complete(self) -> bool:
        """Some model has a rank, and so has every model that is assessable; only such rows are summed."""
        return self.is_ranked and all(entry.rank is not None or not entry.is_assessable for entry in self.entries)

    @property
    def is_ranked(self) -> bool:
        """Some model has a rank."""
        return any(entry.rank is not None for entry in self.entries)


class AspectScore(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one aspect, over its complete rows."""

    rank_sum: float
    normalised: float | None
    """0 = lowest of all sums, 1 = highest; None when all are equal. Larger where an aspect has more data sets."""
    mean_rank: float


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One model over everything."""

    model: str
    place: int | None = None
    """Place by mean rank; models with the same mean rank share the better place."""
    is_tied: bool = False
    mean_rank: float | None
    """Over complete rows; None for a model without a rank on one of them."""
    n_not_assessable: int
    not_assessable: str | None
    """The reason if it is not assessable on any of its rows: then it has no place."""
    unrelated: float | None
    """Percent, plain mean over the rows the model has."""
    refused: float | None
    aspects: list[AspectScore | None]
    """Scores in the order of the leaderboard's aspects; None without a complete row."""


class JointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model in the table of two suites that have a joint score (protocols 4.5)."""

    model: str
    parts: list[Estimate | None]
    """The table's metric in both suites, the partner's first."""
    mean: float | None
    reason: str | None
    beside: list[list[Estimate | None]]
    """Metrics printed next to it, of both suites."""


class JointRows(msgspec.Struct, frozen=True, kw_only=True):
    table: JointTable
    rows: list[JointRow]

    @property
    def shown(self) -> list[int]:
        """Return the places of those of the two suites that some model has a run of."""
        return [at for at in range(len(self.table.columns)) if any(self._of(row, at) for row in self.rows)]

    @property
    def has_mean(self) -> bool:
        return any(row.mean is not None for row in self.rows)

    @property
    def folded(self) -> str | None:
        """Return a note on columns left out because every model would have a dash in them; None without any."""
        gone = [name for at, name in enumerate(self.table.columns) if at not in self.shown]
        if gone:
            return f"No model has a run of {' or '.join(gone)} here that is comparable with the others: no average."
        return None if self.has_mean else "No model has both numbers: no average."

    @staticmethod
    def _of(row: JointRow, at: int) -> bool:
        return any(estimate is not None for estimate in (row.parts[at], *row.beside[at]))


class Leaderboard(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks and joint scores from all runs of the same kind."""

    title: str
    kind: str
    models: list[str]
    """Models of the rank table, in the order given."""
    aspects: list[str]
    rows: list[Row]
    standings: list[Standing]
    """Best mean rank first, then those without one, last those that are not assessable."""
    joint: list[JointRows]
    notes: list[str]
    figure: Figure | None = None

    @property
    def has_places(self) -> bool:
        """Some model has a mean rank."""
        return any(standing.mean_rank is not None for standing in self.standings)

    @property
    def not_assessable(self) -> list[str]:
        """Models that have no place, with the reason."""
        return [f"{s.model}: {s.not_assessable}" for s in self.standings if s.not_assessable]

    @property
    def shown_aspects(self) -> list[int]:
        """Places of the aspects in which some model has a score."""
        return [at for at in range(len(self.aspects)) if any(s.aspects[at] is not None for s in self.standings)]

    @property
    def folded_aspects(self) -> str:
        """The others in words; empty for none."""
        visible = self.shown_aspects
        return ", ".join(name.replace("_", " ") for at, name in enumerate(self.aspects) if at not in visible)


def leaderboards(results: Sequence[Result]) -> list[Leaderboard]:
    """One leaderboard for each kind of run of which there are several models; none for other results."""
    kinds: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        kind = (result.protocol, result.mode, result.dataset.kind, result.mitigation)
        kinds.setdefault(kind, []).append(result)
    boards = [_board(together) for together in kinds.values()]
    return [board for board in boards if len(board.models) > 1 or any(len(joint.rows) > 1 for joint in board.joint)]


def separation(results: Sequence[Result]) -> str | None:
    """One line when models were measured in different ways and so stand on different leaderboards."""
    ways: dict[str, list[str]] = {
        "protocol": [result.protocol for result in results],
        "mode": [result.mode for result in results],
        "data": [result.dataset.kind for result in results],
        "mitigation": [result.mitigation for result in results],
    }
    split = [f"{name} ({', '.join(dict.fromkeys(values))})" for name, values in ways.items() if len(set(values)) > 1]
    if len({result.model for result in results}) < 2 or not split:
        return None
    return f"The runs differ in {'; '.join(split)}: each kind has its own leaderboard, if it has several models."


def settings(result: Result) -> Mapping[str, str | float | None]:
    """Return the settings that must agree for two results of the same suite to stand side by side."""
    return {
        "suite version": result.suite_version,
        "data sha256": result.dataset.sha256,
        "limit": None if result.limit is None else f"{result.limit} by seed {result.seed}",
        "precision": None if result.precision is None else f"{result.precision.n_asked} items by seed {result.seed}",
        "samples": result.samples,
        "few-shot": result.few_shot,
        "subset": result.subset,
        "axes": shown_axes(result.axes),
        "temperature": result.temperature,
        "thinking": result.thinking,
        "extra body": shown_fields(result.extra_body),
        "asked by": result.provenance.asked_by,
        "judge": result.provenance.judged_by,
        "embedder": result.provenance.embedder,
    }


def _board(results: Sequence[Result]) -> Leaderboard:
    notes: list[str] = []
    by_suite: dict[str, dict[str, Result]] = {}
    for suite in dict.fromkeys(result.suite for result in results):
        chosen = _comparable(suite, [result for result in results if result.suite == suite], notes)
        if chosen:
            by_suite[suite] = chosen
    ranked = [(suite, rule, runs) for suite, runs in by_suite.items() if (rule := rank_rule(suite)) is not None]
    models = list(dict.fromkeys(model for _, _, runs in ranked for model in runs))
    rows = [row for suite_runs in ranked for row in _rows(*suite_runs, models, notes)] if models[1:] else []
    rows.sort(key=lambda row: (row.aspect, row.suite))
    notes += [f"{row.aspect}, {row.suite}: {_why_left_out(row)}" for row in rows if not row.is_complete]
    aspects = list(dict.fromkeys(row.aspect for row in rows))
    standings = _standings(models, aspects, rows)
    first = results[0]
    added = "" if first.mitigation == NONE else f" · mitigation {first.mitigation}"
    return Leaderboard(
        title=f"{first.protocol} protocol · {first.mode} · {first.dataset.kind} data{added}",
        kind=first.dataset.kind,
        models=models,
        aspects=aspects,
        rows=rows,
        standings=standings,
        joint=_joint(by_suite),
        notes=notes,
        figure=figure(by_suite, [standing.model for standing in standings]),
    )


def _why_left_out(row: Row) -> str:
    if row.is_ranked:
        return "not summed, a model has no rank there"
    reasons = dict.fromkeys(entry.reason for entry in row.entries if entry.reason is not None)
    return f"no model has a rank ({'; '.join(reasons)})"


def _comparable(suite: str, results: Sequence[Result], notes: list[str]) -> dict[str, Result]:
    """Return the results of a single suite by model; empty if they were not made in the same way."""
    ways = {name: [settings(result)[name] for result in results] for name in settings(results[0])}
    differing = {name: list(dict.fromkeys(map(str, way))) for name, way in ways.items() if len(set(way)) > 1}
    if differing:
        differences = "; ".join(f"{name} ({', '.join(values)})" for name, values in differing.items())
        notes.append(f"{suite}: left out, its runs differ in {differences}")
        return {}
    by_model: dict[str, Result] = {}
    for result in results:
        if result.model in by_model:
            notes.append(f"{suite}: {result.model} has several runs; the last one given counts")
        by_model[result.model] = result
    return by_model


def rank_rule(suite: str) -> RankRule | None:
    """Return the rule by which this suite ranks models; None if it has none or is not installed any more."""
    registered = registry.known(suite)
    return None if registered is None else registered.rank_rule


def _rows(suite: str, rule: RankRule, runs: Mapping[str, Result], models: Sequence[str], notes: list[str]) -> list[Row]:
    if len(runs) < 2:
        notes.append(f"{suite}: only {next(iter(runs))} has a run: nothing to rank")
        return []
    estimates = [e for result in runs.values() for e in result.estimates if e.axis is not None]
    axes = dict.fromkeys(e.axis for e in estimates if e.metric == rule.metric)
    notes += [
        f"{axis}, {suite}: not ranked, its questions have no {rule.metric.replace('_', ' ')}"
        for axis in dict.fromkeys(e.axis for e in estimates)
        if axis not in axes
    ]
    return [_row(suite, axis, rule, runs, models) for axis in axes]


def _row(suite: str, axis: str | None, rule: RankRule, runs: Mapping[str, Result], models: Sequence[str]) -> Row:
    there = [model for model in models if model in runs]
    estimates = {model: [e for e in runs[model].estimates if e.axis == axis] for model in there}
    values = [rule.statistic(estimates[model]) for model in there]
    faults = [runs[model].fault or runs[model].axes_not_assessable.get(axis or "") for model in there]
    ranked = [math.nan if fault else value for value, fault in zip(values, faults, strict=True)]
    suite_ranks = ranks(ranked, best=rule.best)
    placed = [model for model, rank in zip(there, suite_ranks, strict=True) if rank is not None]
    ranges = _ranges(rule, axis, {model: runs[model] for model in placed}, dict(zip(there, values, strict=True)))
    few = next((words for model in placed if (words := _too_few(rule, estimates[model]))), None)
    entries = {}
    for model, rank, value, fault in zip(there, suite_ranks, values, faults, strict=True):
        within, resamples = ranges.get(model), runs[model].rank_resamples
        has_interval = within is not None and few is None
        entries[model] = Entry(
            value=None if math.isnan(value) else value,
            by_chance=next((resample.by_chance for resample in resamples if resample.axis == axis), None),
            rank=rank if within is None else float(within.place),
            lower=within.lower if within is not None and has_interval else None,
            upper=within.upper if within is not None and has_interval else None,
            is_assessable=fault is None,
            unrelated=unrelated_rate(estimates[model]),
            refused=rate(estimates[model], "refusal_rate"),
            declined=declined_rate(estimates[model]) if rule.declining == "no preference" else None,
            reason=few if rank is not None else fault or "the statistic is undefined",
        )
    missing = Entry(reason=NO_RUN)
    every = _with_ties([entries.get(model, missing) for model in models])
    return Row(aspect=axis or "", suite=suite, words=rule.words, entries=every)


def _too_few(rule: RankRule, estimates: Sequence[Estimate]) -> str | None:
    """Return why resamples of so few clusters give no interval; None of enough, or of results that do not tell."""
    told = [e.extra for e in estimates if e.metric == rule.metric and "n_clusters" in e.extra]
    n_clusters, unit = max(((extra["n_clusters"], extra["unit"]) for extra in told), default=(MIN_CLUSTERS, ""))
    if n_clusters >= MIN_CLUSTERS:
        return None
    return f"no rank interval: {n_clusters} {unit}{'' if n_clusters == 1 else 's'}, fewer than {MIN_CLUSTERS}"


def _with_ties(entries: Sequence[Entry]) -> list[Entry]:
    held = Counter(entry.rank for entry in entries if entry.rank is not None)
    return [e if e.rank is None else msgspec.structs.replace(e, is_tied=held[e.rank] > 1) for e in entries]


def _ranges(
    rule: RankRule, axis: str | None, runs: Mapping[str, Result], values: Mapping[str, float]
) -> dict[str, RankRange]:
    """Return the rank ranges, which hold at every look; empty without resamples or enough defined ones."""
    drawn = {}
    for model, result in runs.items():
        of_axis = next((resample.values for resample in result.rank_resamples if resample.axis == axis), [])
        drawn[model] = [math.nan if value is None else value for value in of_axis]
    lengths = {len(row) for row in drawn.values()}
    is_sparse = any(sum(map(math.isnan, row)) > MOST_UNDEFINED * len(row) for row in drawn.values())
    if len(lengths) != 1 or lengths == {0} or is_sparse:
        return {}
    level = max(LEVEL if run.precision is None else run.precision.level_of_a_look for run in runs.values())
    places = [values[model] for model in drawn]
    ranges = rank_ranges(places, np.array(list(drawn.values())), best=rule.best, confidence_level=level)
    return dict(zip(drawn, ranges, strict=True))


def _standings(models: Sequence[str], aspects: Sequence[str], rows: Sequence[Row]) -> list[Standing]:
    complete = [row for row in rows if row.is_complete]
    sums: dict[tuple[str, str], float] = {}
    for row in complete:
        for model, entry in zip(models, row.entries, strict=True):
            sums[row.aspect, model] = sums.get((row.aspect, model), 0.0) + (entry.rank or 0.0)
    unplaced = {
        (row.aspect, model) for row in complete for model, e in zip(models, row.entries, strict=True) if e.rank is None
    }
    scores = normalised_rank_scores({key: total for key, total in sums.items() if key not in unplaced})
    n_rows = {aspect: sum(row.aspect == aspect for row in complete) for aspect in aspects}

    def aspect_score(aspect: str, model: str) -> AspectScore | None:
        if not n_rows[aspect] or (aspect, model) in unplaced:
            return None
        total = sums[aspect, model]
        return AspectScore(rank_sum=total, normalised=scores[aspect, model], mean_rank=mean_rank(total, n_rows[aspect]))

    idle = {model for _, model in unplaced}
    standings = []
    for index, model in enumerate(models):
        own = [row.entries[index] for row in rows]
        total = sum(sums.get((aspect, model), 0.0) for aspect in aspects)
        reasons = dict.fromkeys(entry.reason for entry in own if not entry.is_assessable and entry.reason)
        standings.append(
            Standing(
                model=model,
                mean_rank=None if not complete or (model in idle) else mean_rank(total, len(complete)),
                n_not_assessable=sum(not entry.is_assessable for entry in own),
                not_assessable=None if any(e.is_assessable and e.reason != NO_RUN for e in own) else "; ".join(reasons),
                unrelated=_mean([entry.unrelated for entry in own]),
                refused=_mean([entry.refused for entry in own]),
                aspects=[aspect_score(aspect, model) for aspect in aspects],
            )
        )
    standings.sort(
        key=lambda standing: (
            standing.not_assessable is not None,
            standing.mean_rank is None,
            standing.mean_rank or 0.0,
        )
    )
    return _placed(standings)


def _placed(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings with their places; means that are equal but for rounding share a place."""
    means = [None if standing.mean_rank is None else round(standing.mean_rank, 9) for standing in standings]
    return [
        s if mean is None else msgspec.structs.replace(s, place=means.index(mean) + 1, is_tied=means.count(mean) > 1)
        for s, mean in zip(standings, means, strict=True)
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def _joint(by_suite: Mapping[str, Mapping[str, Result]]) -> list[JointRows]:
    joint_tables = []
    for suite in SUITES.values():
        joint = suite.joint_score
        if joint is None or not by_suite.keys() & {joint.partner, suite.name}:
            continue
        suites = (joint.partner, suite.name)
        runs = [by_suite.get(name, {}) for name in suites]
        models = dict.fromkeys(model for by_model in runs for model in by_model)
        rows = [_joint_row(model, joint.table, suites, [by_model.get(model) for by_model in runs]) for model in models]
        joint_tables.append(JointRows(table=joint.table, rows=rows))
    return joint_tables


def _joint_row(model: str, table: JointTable, suites: Sequence[str], results: Sequence[Result | None]) -> JointRow:
    totals = [
        {e.metric: stated(result, e) for e in result.estimates if _is_total(e)} if result else {} for result in results
    ]
    parts = [total.get(table.metric) for total in totals]
    missing = [
        f"no {suite} run"
        if result is None
        else f"{suite} is {'not assessable' if part is not None and result.fault_of(part) else 'undefined'}"
        for suite, result, part in zip(suites, results, parts, strict=True)
        if part is None or part.value is None
    ]
    values = [part.value for part in parts if part is not None and part.value is not None]
    return JointRow(
        model=model,
        parts=parts,
        mean=None if missing else table.mean(values[0], values[1]),
        reason="; ".join(missing) or None,
        beside=[[total.get(metric) for metric in table.beside] for total in totals],
    )


def _is_total(estimate: Estimate) -> bool:
    return (estimate.axis, estimate.group, estimate.reference, estimate.subset) == (None, None, None, None)
