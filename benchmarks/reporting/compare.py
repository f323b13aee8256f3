"""Compares two runs of a suite, paired by item id and adjusted for the number of comparisons.
Both sides are scored on the replies they share; whole clusters are resampled, and swapped for p values. Where a side
could stop early (`--precision`), intervals and p values hold at every look (`benchmarks.run.estimation`).
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.metrics.bootstrap import N_PERMUTATIONS, holm, paired_swap_p_value
from auditors.metrics.significance import repeated_level
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.run.completers.served import POLICY
from benchmarks.run.estimation import FALSE_STARS, GROWTH, n_looks
from benchmarks.run.plan import RunOptions
from benchmarks.run.result import Result
from benchmarks.run.score import cells
from benchmarks.suites import registry
from benchmarks.suites.common.counting import cluster_sums, rate, unit
from benchmarks.suites.common.estimation import (
    MIN_CLUSTERS,
    Cell,
    CellKey,
    cell_rng,
    point,
    resampled,
    too_few,
    too_undefined,
)
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import Observation

LEAST_P_VALUE = 1 / (1 + N_PERMUTATIONS)
SAME_DIFFERENCE = "no interval: every resample gives the same difference, so its spread cannot be seen"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference B minus A in a single number."""

    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    subset: str | None
    value_a: float | None
    value_b: float | None
    difference: float | None
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    """Holm over all comparisons; whole axes, and groups and parts of the data, each have half of the 5 %."""
    n_clusters: int
    n_a: int
    n_b: int
    """Replies in the denominator of each side."""
    over_axes: str | None = None
    """The way axes are joined if `axis` is None: "unweighted" or "pooled"."""
    reason: str | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether this is a number of a whole axis or of all axes, as the papers' tables print them."""
        return self.group is None and self.reference is None and self.subset is None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The table of two runs."""

    suite: str
    run_a: str
    run_b: str
    model_a: str
    model_b: str
    mitigation_a: str
    mitigation_b: str
    policy_a: str | None = None
    policy_b: str | None = None
    """Policies of a gateway under which a side's replies came."""
    differing: dict[str, list[str]]
    """Options, policies of a gateway and fingerprints of servers in which the two runs differ, with both values."""
    n_paired: int
    """Replies both runs have, errors left out."""
    n_unpaired: int
    """Replies only one of them has, or that are errors in one."""
    n_comparisons: int
    """Whole axes: numbers with a p value."""
    n_comparisons_of_parts: int
    """The same for numbers of groups and parts of the data."""
    expected_by_chance: float | None
    """Stars on average if the two runs differ by chance alone, at most 0.05; None: nothing has a p value."""
    noise: dict[str, str]
    """The change that each side's run found by itself (--repeat-share), by side; a run without repeats has no entry."""
    judge_faults: dict[str, str]
    """Reasons why a side's numbers rest on a judge that is not validated, by side ("a", "b")."""
    n_looks: int | None
    """Looks at which a side might have stopped, for which all of this holds; None: neither had --precision."""
    confidence_level: float
    """Confidence level of the intervals, at any of those looks."""
    method: str
    differences: list[Difference]

    @property
    def names(self) -> dict[str, str]:
        """Return what tells the sides ("a", "b") apart: model, mitigation and policy, else the run as well."""
        sides = {"a": (self.model_a, self.mitigation_a, self.policy_a)}
        sides["b"] = (self.model_b, self.mitigation_b, self.policy_b)
        names = {side: _side_name(*of_side) for side, of_side in sides.items()}
        if names["a"] != names["b"]:
            return names
        runs = {"a": self.run_a, "b": self.run_b}
        if Path(self.run_a).name != Path(self.run_b).name:
            runs = {side: Path(run).name for side, run in runs.items()}
        return {side: f"{name}, {runs[side]}" for side, name in names.items()}


class ComparedRun(NamedTuple):
    """One side: a run directory, or a run of a store."""

    name: str
    manifest: directory.Manifest
    result: Result | None
    """The result of the run; None if it is not finished."""
    observations: Callable[[], Sequence[Observation]]
    n_items: int


def compare(
    path_a: Path, path_b: Path, *, confidence_level: float = 0.95, keys: Container[CellKey] | None = None
) -> Comparison:
    """Compares two run directories. Raises as `compare_runs`."""
    runs = _in_directory(path_a), _in_directory(path_b)
    return compare_runs(*runs, confidence_level=confidence_level, keys=keys)


def compare_runs(
    run_a: ComparedRun, run_b: ComparedRun, *, confidence_level: float = 0.95, keys: Container[CellKey] | None = None
) -> Comparison:
    """Compare the numbers in `keys` (None: all). Raises BenchmarkError for another suite, version, protocol or data."""
    manifest_a, manifest_b = run_a.manifest, run_b.manifest
    _demand_comparable(run_a, run_b)
    paired_a, paired_b, n_unpaired = paired(run_a.observations(), run_b.observations())
    if not paired_a:
        raise BenchmarkError(f"{run_a.name} and {run_b.name} share no answered item: use the same --limit and --seed")
    suite = registry.find(manifest_a.options.suite)
    looks = _n_looks([run_a, run_b])
    level = confidence_level if looks is None else repeated_level(looks, GROWTH, confidence_level)
    penalty = (1 - confidence_level) / (1 - level)
    filtered_a, filtered_b = _filtered(paired_a, paired_b)
    cells_a, cells_b = (cells(manifest_a.options, suite, observations) for observations in (paired_a, paired_b))
    differences = compared(
        [cell for cell in (*cells_a, *filtered_a) if keys is None or cell.key in keys],
        [*cells_b, *filtered_b],
        seed=manifest_a.options.seed,
        confidence_level=level,
        penalty=penalty,
    )
    return Comparison(
        suite=manifest_a.options.suite,
        run_a=run_a.name,
        run_b=run_b.name,
        model_a=manifest_a.options.model,
        model_b=manifest_b.options.model,
        mitigation_a=manifest_a.options.mitigation,
        mitigation_b=manifest_b.options.mitigation,
        policy_a=_policy(run_a.result),
        policy_b=_policy(run_b.result),
        differing=_differing(manifest_a.options, manifest_b.options) | _other_servers(run_a.result, run_b.result),
        n_paired=len(paired_a),
        n_unpaired=n_unpaired,
        n_comparisons=sum(row.p_value is not None for row in differences if row.is_whole),
        n_comparisons_of_parts=sum(row.p_value is not None for row in differences if not row.is_whole),
        expected_by_chance=_expected_by_chance(differences, penalty),
        noise=_noise({"a": run_a.result, "b": run_b.result}),
        judge_faults=_judge_faults({"a": run_a.result, "b": run_b.result}),
        n_looks=looks,
        confidence_level=confidence_level,
        method=("" if looks is None else "repeated ") + "paired cluster bootstrap; permutation of whole clusters; Holm",
        differences=differences,
    )


def compared(
    cells_a: Sequence[Cell], cells_b: Sequence[Cell], *, seed: int, confidence_level: float = 0.95, penalty: float = 1.0
) -> list[Difference]:
    """Return B minus A of every shared number; plain rates of whole axes only, without p. `penalty`: factor of p."""
    by_key = {cell.key: cell for cell in cells_b}
    pairs = [aligned(cell, by_key[cell.key]) for cell in cells_a if cell.key in by_key]
    rows = [_difference(a, b, seed, confidence_level, penalty) for a, b in pairs if _is_shown(a)]
    return _adjusted(rows)


def by_metric(differences: Sequence[Difference]) -> dict[str, list[Difference]]:
    """The numbers of whole axes, as the papers print a mitigation: one table a metric, the mean over axes last."""
    whole = sorted((row for row in differences if row.is_whole), key=lambda row: row.axis is None)
    return {metric: [row for row in whole if row.metric == metric] for metric in dict.fromkeys(r.metric for r in whole)}


def _in_directory(path: Path) -> ComparedRun:
    return ComparedRun(
        name=str(path),
        manifest=directory.read_manifest(path),
        result=directory.read_result(path) if (path / directory.RESULT).exists() else None,
        observations=lambda: directory.observations(path),
        n_items=directory.n_items(path),
    )


def _demand_comparable(run_a: ComparedRun, run_b: ComparedRun) -> None:
    manifest_a, manifest_b = run_a.manifest, run_b.manifest
    facts = {
        "suite": (manifest_a.options.suite, manifest_b.options.suite),
        "suite_version": (manifest_a.suite_version, manifest_b.suite_version),
        "protocol": (manifest_a.options.protocol, manifest_b.options.protocol),
        "mode": (manifest_a.options.mode, manifest_b.options.mode),
        "few_shot": (manifest_a.options.few_shot, manifest_b.options.few_shot),
        **_other_data(manifest_a, manifest_b),
        **_instruments(run_a.result, run_b.result),
    }
    for name, (a, b) in facts.items():
        if a != b:
            raise BenchmarkError(f'{run_a.name} and {run_b.name} cannot be compared: {name} is "{a}" and "{b}"')


def _other_data(a: directory.Manifest, b: directory.Manifest) -> dict[str, tuple[str, str]]:
    if a.dataset_sha256 == b.dataset_sha256:
        return {}
    if a.options.data != b.options.data:
        return {"data": (a.options.data, b.options.data)}
    return {"dataset_sha256": (a.dataset_sha256, b.dataset_sha256)}


def _instruments(a: Result | None, b: Result | None) -> dict[str, tuple[str | None, str | None]]:
    """Return prompts, judge and embedder of finished runs: scores of two judges cannot be compared."""
    if a is None or b is None:
        return {}
    provenance_a, provenance_b = a.provenance, b.provenance
    return {
        "asked_by": (provenance_a.asked_by, provenance_b.asked_by),
        "judge": (provenance_a.judged_by, provenance_b.judged_by),
        "embedder": (provenance_a.embedder, provenance_b.embedder),
    }


def _differing(options_a: RunOptions, options_b: RunOptions) -> dict[str, list[str]]:
    a, b = msgspec.to_builtins(options_a), msgspec.to_builtins(options_b)
    names = [name for name in a if name not in ("concurrency", "mitigation_text") and a[name] != b[name]]
    return {name: ["not set" if side[name] is None else str(side[name]) for side in (a, b)] for name in names}


def _other_servers(a: Result | None, b: Result | None) -> dict[str, list[str]]:
    if a is None or b is None:
        return {}
    prints = [", ".join(side.provenance.fingerprints) or "none given" for side in (a, b)]
    said = {"policy": [_policy(side) or "none" for side in (a, b)], "server fingerprint": prints}
    return {name: values for name, values in said.items() if values[0] != values[1]}


def _policy(result: Result | None) -> str | None:
    return None if result is None else result.provenance.policy


def _side_name(model: str, mitigation: str, policy: str | None) -> str:
    added = [f" + {mitigation}"] if mitigation != NONE else []
    added += [f" + policy {policy}"] if policy is not None else []
    return "".join([model, *added])


Observations = Sequence[Observation]
NO_REPLY = ("error", "thinking_exhausted")


def paired(a: Observations, b: Observations) -> tuple[list[Observation], list[Observation], int]:
    """Return the replies that both runs have, in order, and how many only one run has; errors do not count."""

    def answered(observations: Observations) -> dict[tuple[str, int], Observation]:
        return {(o.reply.item_id, o.reply.sample): o for o in observations if o.reply.status not in NO_REPLY}

    known_a, known_b = answered(a), answered(b)
    shared = [key for key in known_a if key in known_b]
    n_all = len({(o.reply.item_id, o.reply.sample) for o in [*a, *b]})
    return [known_a[key] for key in shared], [known_b[key] for key in shared], n_all - len(shared)


FILTERED = "refused_by_filter"


def _filtered(*sides: Sequence[Observation]) -> list[list[Cell]]:
    """Return for each side the share of the replies that a filter refused; nothing where no run met a filter."""
    replies = (observation.reply for side in sides for observation in side)
    if not any(reply.is_filtered or POLICY in (reply.usage or {}) for reply in replies):
        return [[] for _ in sides]
    both = []
    for side in sides:
        clusters, sums = cluster_sums(side, 2, lambda observation: (observation.reply.is_filtered, 1))
        both.append([rate(partial(Cell, axis=None, clusters=clusters, unit=unit(side, "cluster")), FILTERED, sums)])
    return both


def _is_shown(cell: Cell) -> bool:
    return not cell.is_secondary or (cell.group, cell.reference, cell.subset) == (None, None, None)


def aligned(a: Cell, b: Cell) -> tuple[Cell, Cell]:
    """Both cells over the clusters of either: one whose replies do not count on a side has zero sums there."""
    if a.clusters == b.clusters:
        return a, b
    clusters = tuple(sorted({*a.clusters, *b.clusters}))
    row = {cluster: index for index, cluster in enumerate(clusters)}
    strata, factors = _design(a, b, clusters)
    spread = []
    for cell in (a, b):
        sums = np.zeros((len(clusters), cell.sums.shape[1]))
        sums[[row[cluster] for cluster in cell.clusters]] = cell.sums
        spread.append(msgspec.structs.replace(cell, clusters=clusters, sums=sums, strata=strata, factors=factors))
    return spread[0], spread[1]


def _design(a: Cell, b: Cell, clusters: tuple[str, ...]) -> tuple[tuple[str, ...] | None, dict[str, NDArray[np.intp]]]:
    """Strata and levels of the clusters of either; a cluster has the same on both sides."""
    strata: dict[str, str] = {}
    levels: dict[str, dict[str, int]] = {name: {} for name in a.factors}
    for cell in (a, b):
        strata |= dict(zip(cell.clusters, cell.strata or (), strict=cell.strata is not None))
        for name, level_by_cluster in levels.items():
            level_by_cluster |= dict(zip(cell.clusters, cell.factors[name].tolist(), strict=True))
    return (
        None if a.strata is None else tuple(strata[cluster] for cluster in clusters),
        {name: np.array([level[cluster] for cluster in clusters], dtype=np.intp) for name, level in levels.items()},
    )


def _difference(a: Cell, b: Cell, seed: int, confidence_level: float, penalty: float) -> Difference:
    value_a, value_b = point(a), point(b)
    row = Difference(
        **a.key._asdict(),
        value_a=value_a,
        value_b=value_b,
        difference=None,
        n_clusters=len(a.clusters),
        n_a=a.n,
        n_b=b.n,
        over_axes=_over_axes(a),
    )
    if value_a is None or value_b is None:
        side = "A" if value_a is None else "B"
        return msgspec.structs.replace(row, reason=f"undefined in {side}: {(a if value_a is None else b).undefined}")
    row = msgspec.structs.replace(row, difference=value_b - value_a)
    faults = [f"{side} ({why})" for side, why in (("A", a.not_assessable), ("B", b.not_assessable)) if why is not None]
    if faults:
        return msgspec.structs.replace(row, reason=f"not assessable in {' and '.join(faults)}")
    if len(a.clusters) < MIN_CLUSTERS:
        return msgspec.structs.replace(row, reason=too_few(a))
    rng = cell_rng(a, seed)
    width = a.sums.shape[1]
    both = np.hstack([a.sums, b.sums])

    def difference(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(a.statistic(sums[..., width:]) - a.statistic(sums[..., :width]))

    bootstrap = resampled(a, both, difference, rng=rng, confidence_level=confidence_level)
    p_value = math.nan if a.is_secondary else paired_swap_p_value(a.sums, b.sums, a.statistic, rng=rng)
    row = msgspec.structs.replace(row, p_value=None if math.isnan(p_value) else min(1.0, penalty * p_value))
    if bootstrap.interval is None or bootstrap.is_degenerate:
        return msgspec.structs.replace(row, reason=SAME_DIFFERENCE)
    if (reason := too_undefined(bootstrap)) is not None:
        return msgspec.structs.replace(row, reason=reason)
    # As for a single estimate: the interval always holds the value.
    ends = (min(bootstrap.interval.lower, value_b - value_a), max(bootstrap.interval.upper, value_b - value_a))
    return msgspec.structs.replace(row, lower=ends[0], upper=ends[1])


def _over_axes(cell: Cell) -> str | None:
    if cell.axis is not None:
        return None
    return "unweighted" if str(cell.extra.get("mean", "")).startswith("unweighted") else "pooled"


def _adjusted(rows: list[Difference]) -> list[Difference]:
    """Adjust all together: two runs that differ by chance alone have a star in 5 % of cases at most."""
    shares = _shares(rows)
    adjusted = holm([rows[n].p_value or 0.0 for n in shares], list(shares.values()))
    p_by_place = dict(zip(shares, adjusted, strict=True))
    return [
        msgspec.structs.replace(row, adjusted_p_value=p_by_place[n]) if n in p_by_place else row
        for n, row in enumerate(rows)
    ]


def _shares(rows: Sequence[Difference]) -> dict[int, float]:
    """Return the share of the 5 % that each comparison has: half for each of two families, all for a single one."""
    places = [n for n, row in enumerate(rows) if row.p_value is not None]
    sizes = Counter(rows[n].is_whole for n in places)
    return {n: 1 / (len(sizes) * sizes[rows[n].is_whole]) for n in places}


def _expected_by_chance(rows: Sequence[Difference], penalty: float) -> float | None:
    """Return the number of stars expected by chance, from the comparisons that the permutations can reach."""
    levels = [FALSE_STARS * share for share in _shares(rows).values()]
    return sum(level for level in levels if level >= penalty * LEAST_P_VALUE) if levels else None


def _n_looks(runs: Sequence[ComparedRun]) -> int | None:
    """Return the number of sizes at which the runs might have stopped: added up, unless both look at the same items."""
    planned = [
        (run.n_items, run.manifest.options.limit, run.manifest.options.subset, run.manifest.options.seed)
        for run in runs
        if run.manifest.options.precision is not None
    ]
    return sum(n_looks(selection[0]) for selection in dict.fromkeys(planned)) if planned else None


def _noise(results: Mapping[str, Result | None]) -> dict[str, str]:
    repeats_by_side = {side: result.repeats for side, result in results.items() if result is not None}
    return {side: repeats.words for side, repeats in repeats_by_side.items() if repeats is not None}


def _judge_faults(results: Mapping[str, Result | None]) -> dict[str, str]:
    faults = {side: result.judge_fault for side, result in results.items() if result is not None}
    return {side: fault for side, fault in faults.items() if fault is not None}
