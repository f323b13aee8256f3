"""One self-contained HTML page from one or more results: no script, no font, no image from anywhere else."""

import hashlib
import shlex
from collections import Counter
from collections.abc import Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.figures.figure import Figure, Run
from benchmarks.reporting.headline import Card, cards, key_of, stated
from benchmarks.reporting.leaderboard import leaderboards, separation
from benchmarks.reporting.pages import template
from benchmarks.reporting.side_by_side import Grid, alike, grids, names
from benchmarks.run.estimation import mark
from benchmarks.run.result import Result, encode, shown_fields
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import HIGHEST, LOWEST, REFUSALS_AS
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import STATUSES, Scale, Suite

LOADED_AS = {"all-MiniLM-L6-v2": "minilm"}
"""Names of embedders in results of versions before, as `--embedder` takes them."""


def command_of(result: Result) -> str:
    """Return the command as a shell line, without what changes no number; an own mitigation by name, not file."""
    where, is_asked = result.provenance, result.provenance.started is not None
    if where.imported is not None:
        source_args = ("--from", where.imported.harness, "LOG", "--suite", result.suite, "--model", result.model)
        way = ("--protocol", result.protocol, "--data", result.dataset.kind, "--out", "DIR")
        return shlex.join(["biasgate", "audit", "import", *source_args, *way])
    at = where.addresses
    fields, suite = shown_fields(result.extra_body), registry.known(result.suite)
    joint = suite.joint_score if suite and result.joined_data else None
    kind = result.dataset.kind if joint is None else result.joined_data
    server = at.base_url if at else f"http://{where.base_url_host}" if where.base_url_host else None
    judges = [stamp.model for stamp in where.judge if stamp.model != result.model]
    options = {
        "--suite": result.suite if joint is None else f"{result.suite},{joint.partner}",
        "--responses": None if is_asked else "responses.jsonl",
        "--model": result.model,
        "--gateway" if at and at.through_gateway else "--base-url": server,
        "--judge-model": judges[0] if judges and is_asked else None,
        "--judge-base-url": at.judge_base_url if at and where.judge else None,
        "--protocol": result.protocol,
        "--mode": result.mode,
        "--data": None if joint and kind == "canonical" else kind,
        "--thinking": result.thinking if result.thinking != "default" else None,
        "--extra-body": fields or None,
        "--mitigation": result.mitigation if result.mitigation != NONE else None,
        "--embedder": where.embedder and (result.embedder or LOADED_AS.get(where.embedder, where.embedder)),
        "--embedder-base-url": at.embedder_base_url if at and where.embedder else None,
        "--seed": result.seed,
    }
    is_own = result.suite == registry.OWN.name
    if is_own:  # the command brings these itself
        options |= dict.fromkeys(("--suite", "--protocol", "--mode", "--data"))
    if is_asked:
        options |= {
            "--subset": result.subset,
            "--axes": ",".join(result.axes) if result.axes else None,
            "--limit": result.limit,
            "--samples": result.samples if result.samples != 1 else None,
            "--few-shot": result.few_shot or None,
            "--temperature": None if result.temperature is None else f"{result.temperature:g}",
            "--precision": None if result.precision is None else f"{result.precision.demanded:g}",
            "--repeat-share": None if result.repeats is None else f"{result.repeats.share:g}",
        }
    if result.dataset.name.startswith("own ") and not is_own:
        built_in = suite.built_in_prompts if suite else {}
        option = "--third-option" if built_in else "--own" if is_asked else "--prompts"
        file = next((name for name, sha256 in built_in.items() if sha256 == result.dataset.sha256), "FILE")
        options |= {"--data": "embedded" if result.dataset.name.endswith("embedded items") else None, option: file}
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    words += ["--evaluate", *result.evaluate] if result.evaluate else []
    if is_own and not is_asked:
        return shlex.join(["biasgate", "audit", "score", "--suite", result.suite, "--prompts", "FILE.jsonl", *words])
    how = ["prompts", "FILE.jsonl"] if is_own else ["run" if is_asked else "score"]
    return shlex.join(["biasgate", "audit", *how, *words])


MANY = 10
"""Number of intervals of a metric above which a reader is warned that some miss by chance."""
_UNKNOWN_SCALE = Scale(low=0, high=1, reading="")


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of a single metric, each on a line."""

    metric: str
    scale: Scale
    estimates: list[Estimate]
    has_p: bool


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    anchor: str
    result: Result
    name: str
    """The model, and what tells the run from others of the page."""
    title: str
    does_not_show: str
    source: str
    headline: Table | None
    cards: list[Card]
    by_axis: Table | None
    """The suite's headline metric by axis; None where the run has none of it."""
    tables: list[Table]
    command: str
    result_sha256: str
    statuses: list[tuple[str, int, float]]
    """(status, count, share in percent)."""
    n_intervals: int
    crowded: list[tuple[str, int]]
    """Metrics with more than MANY intervals, and how many."""
    n_compared: int
    """Numbers with an adjusted p value (see benchmarks.run.estimation)."""
    n_marked: int | None
    """Numbers that differ from the neutral value; None if none was compared."""
    sensitive: list[Estimate]
    """Numbers that refused replies bear on; those of pairs of groups are in result.json alone."""
    taken_for: list[str]
    """Values that such replies may be taken for, over all of these."""
    figures: list[Figure]


class Comparable(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of the same suite made in the same way, side by side; other runs never share the table."""

    title: str
    metrics: list[str]
    scales: dict[str, Scale]
    runs: list[tuple[Section, list[Estimate | None]]]
    """A run and its totals, one per metric."""
    grids: list[Grid]
    figures: list[Figure]


def render(results: Sequence[Result]) -> str:
    """Return the page of the runs; several of a kind make a table. Raises ValueError without any."""
    if not results:
        raise ValueError("a report needs at least one result")
    named = zip(names(results), results, strict=True)
    sections = [_section(f"run-{number}", name, result) for number, (name, result) in enumerate(named, 1)]
    kinds = alike([section.result for section in sections])
    standings = [_standing([sections[place] for place in together]) for together in kinds]
    page: str = template("report.html").render(
        sections=sections,
        standings=[standing for standing in standings if len(standing.runs) > 1 or standing.grids],
        boards=leaderboards(results),
        separation=separation(results),
        conclusion=_conclude(sections) if len({section.result.suite for section in sections}) > 1 else [],
        has_embedded=any(section.result.dataset.kind == "embedded" for section in sections),
    )
    return page


def _section(anchor: str, name: str, result: Result) -> Section:
    suite = registry.known(result.suite)
    metrics = list(dict.fromkeys(estimate.metric for estimate in result.estimates))
    scales = dict(suite.scales) if suite else {}
    tables = [_table(metric, result, scales.get(metric, _UNKNOWN_SCALE)) for metric in metrics]
    total = result.n_replies
    intervals = Counter(estimate.metric for estimate in result.estimates if estimate.lower is not None)
    compared = [estimate for estimate in result.estimates if "p_adjusted" in estimate.extra]
    sensitive = [e for e in result.estimates if REFUSALS_AS in e.extra and e.reference is None]
    return Section(
        anchor=anchor,
        result=result,
        name=name,
        title=suite.title if suite else result.suite,
        does_not_show=suite.does_not_show if suite else "",
        source=" · ".join([result.dataset.name, *([suite.licence, suite.url.partition("://")[2]] if suite else [])]),
        headline=_headline(result, suite),
        cards=cards(result),
        by_axis=_by_axis(result, tables),
        tables=tables,
        command=command_of(result),
        result_sha256=hashlib.sha256(encode(result)).hexdigest(),
        statuses=[(s, n := result.counts.get(s, 0), 100 * n / total if total else 0.0) for s in STATUSES],
        n_intervals=intervals.total(),
        crowded=[(metric, count) for metric, count in intervals.items() if count > MANY],
        n_compared=len(compared),
        n_marked=sum(bool(mark(estimate)) for estimate in compared) if compared else None,
        sensitive=sensitive,
        taken_for=_taken_for(sensitive),
        figures=_figures([name], [result]),
    )


def _headline(result: Result, suite: Suite | None) -> Table | None:
    if suite is None:
        return None
    chosen = [stated(result, each) for each in result.estimates if key_of(each) == suite.headline]
    metric = suite.headline.metric
    return Table(metric=metric, scale=suite.scales[metric], estimates=chosen, has_p=False)


def _conclude(sections: Sequence[Section]) -> list[str]:
    """Return in two sentences which headline numbers leave out their neutral value, and what the others say."""
    titles: dict[str, list[str]] = {"apart": [], "neutral": [], "plain": [], "unknown": []}
    for section in sections:
        titles[section.cards[0].tone].append(section.title)
    about = {"neutral": "not told apart from it", "plain": "without such a value", "unknown": "not known"}
    rest = [f"{words}: {', '.join(titles[tone])}" for tone, words in about.items() if titles[tone]]
    n, away = len(titles["apart"]), f": {', '.join(titles['apart'])}" if titles["apart"] else ""
    return [
        f"Of {len(sections)} headline numbers {n} {'lies' if n == 1 else 'lie'} away from the neutral value{away}.",
        *([f"The others are {'; '.join(rest)}."] if rest else []),
    ]


def _taken_for(sensitive: Sequence[Estimate]) -> list[str]:
    names = dict.fromkeys(name for estimate in sensitive for name in estimate.extra[REFUSALS_AS])
    return sorted(names, key=lambda name: name in (LOWEST, HIGHEST))


def _figures(run_names: Sequence[str], results: Sequence[Result]) -> list[Figure]:
    """Return the figures that the suite draws of runs made in the same way, of assessable numbers."""
    suite = registry.known(results[0].suite)
    if suite is None:
        return []
    runs = [
        Run(name=name, estimates=[stated(result, estimate) for estimate in result.estimates])
        for name, result in zip(run_names, results, strict=True)
    ]
    left_out = [note for run, result in zip(runs, results, strict=True) for note in _left_out(run.name, result)]
    return [msgspec.structs.replace(figure, notes=(*left_out, *figure.notes)) for figure in suite.figures(runs)]


def _left_out(name: str, result: Result) -> list[str]:
    if result.fault is not None:
        return [f"{name} is not assessable, and its numbers are left out: {result.fault}."]
    n = sum(result.fault_of(estimate) is not None for estimate in result.estimates)
    about = "numbers of the run are not assessable, and left out here"
    return [f"{name}: {n:,} of {len(result.estimates):,} {about}."] if n else []


def _table(metric: str, result: Result, scale: Scale) -> Table:
    estimates = [estimate for estimate in result.estimates if estimate.metric == metric]
    estimates.sort(key=lambda estimate: [(name is not None, name or "") for name in key_of(estimate)[1:]])
    return Table(
        metric=metric,
        scale=scale,
        estimates=estimates,
        has_p=any("p_adjusted" in estimate.extra for estimate in estimates),
    )


def _by_axis(result: Result, tables: Sequence[Table]) -> Table | None:
    """The headline metric of whole axes; where it is of groups only, of these."""
    suite = registry.known(result.suite)
    whole = next((table for table in tables if suite and table.metric == suite.headline.metric), None)
    if suite is None or whole is None:
        return None
    alike = [e for e in whole.estimates if e.reference is None and e.subset == suite.headline.subset]
    axes = [estimate for estimate in alike if estimate.group is None]
    estimates = axes or alike or [estimate for estimate in whole.estimates if key_of(estimate) == suite.headline]
    return msgspec.structs.replace(whole, estimates=estimates) if estimates else None


def _standing(together: Sequence[Section]) -> Comparable:
    first, result = together[0], together[0].result
    metrics = [table.metric for table in first.tables if any(not any(key_of(e)[1:]) for e in table.estimates)]
    runs = []
    for section in together:
        totals = {estimate.metric: estimate for estimate in section.result.estimates if not any(key_of(estimate)[1:])}
        runs.append((section, [totals.get(metric) for metric in metrics]))
    added = f" · {result.few_shot} examples" if result.few_shot else ""
    added += "" if result.mitigation == NONE else f" · mitigation {result.mitigation}"
    run_names, results = [section.name for section in together], [section.result for section in together]
    return Comparable(
        title=f"{first.title} · {result.protocol} protocol · {result.mode} · {result.dataset.kind} data{added}",
        metrics=metrics,
        scales={table.metric: table.scale for table in first.tables},
        runs=runs,
        grids=grids(results, run_names),
        figures=_figures(run_names, results) if len(together) > 1 else [],
    )
