"""Runs, comparisons, gates and audits as functions: what `biasgate audit` does, for notebooks and programs."""

import argparse
import asyncio
import importlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.figures.figure import Run as DrawnRun
from benchmarks.reporting.compare import Comparison
from benchmarks.reporting.compare import compare as compare_directories
from benchmarks.reporting.gate import Verdict, judge, parse
from benchmarks.reporting.headline import stated
from benchmarks.reporting.pages import standalone_svg
from benchmarks.run import directory
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.score import provenance_of, read_recorded
from benchmarks.run.score import score as score_replies
from benchmarks.suites import registry
from benchmarks.suites.protocol import DataKind, Item, ProtocolName, Reply
from benchmarks.suites.registry import SuiteInfo
from gateway.cli.audit import run_suites
from gateway.cli.audit.running import INTERRUPTED

Rows = Literal["pandas", "polars", "rows"]
"""A data frame of pandas or polars, which the user installs, or a list of dicts."""


def to_frame(records: Iterable[object], to: Rows = "pandas") -> Any:
    """Return records as a data frame, a row each. Raises ImportError when its library is not installed."""
    rows = [dict(msgspec.to_builtins(record)) for record in records]
    if to == "rows":
        return rows
    try:
        return importlib.import_module(to).DataFrame(rows)
    except ModuleNotFoundError as exc:
        raise ImportError(f'{to} is not installed: install it, or pass to="rows"') from exc


class Svg(msgspec.Struct, frozen=True):
    """A picture, which a notebook shows."""

    title: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """A finished run of a suite on a model."""

    def __init__(self, path: Path | None, result: Result) -> None:
        self.path = path
        """Run directory; None for replies that were scored in memory."""
        self.result = result

    def __repr__(self) -> str:
        return f"<Run {self.result.suite} {self.result.suite_version}, {self.result.model}>"

    def estimates(self, to: Rows = "pandas") -> Any:
        """Return estimates with interval, n and n_excluded, a row each; without value if not assessable (`reason`)."""
        result = self.result
        about = {"suite": result.suite, "model": result.model, "mitigation": result.mitigation}
        return to_frame([about | msgspec.to_builtins(stated(result, each)) for each in result.estimates], to)

    def items(self, to: Rows = "pandas") -> Any:
        """Return the items with their questions, a row each. Raises BenchmarkError for a run without a directory."""
        return to_frame({item.item_id: _question(item) for item, _ in self._observations()}.values(), to)

    def replies(self, to: Rows = "pandas") -> Any:
        """Return the replies with their questions, a row each. Raises BenchmarkError for a run without a directory."""
        return to_frame([_question(item) | msgspec.to_builtins(reply) for item, reply in self._observations()], to)

    def _observations(self) -> Iterator[tuple[Item, Reply]]:
        if self.path is None:
            raise BenchmarkError("this run has no directory, so its replies were not kept: pass out=DIR")
        for observation in directory.observations(self.path):
            yield observation.item, observation.reply

    @cached_property
    def figures(self) -> list[Svg]:
        """Pictures of the suite's report page; empty if the suite is not installed."""
        suite = registry.known(self.result.suite)
        estimates = [stated(self.result, each) for each in self.result.estimates]
        drawn = suite.figures([DrawnRun(name=self.result.model, estimates=estimates)]) if suite else []
        return [
            Svg(" · ".join(filter(None, (figure.title, picture.title))), standalone_svg(picture.svg))
            for figure in drawn
            for picture in figure.pictures
        ]


def _question(item: Item) -> dict[str, object]:
    about: dict[str, object] = {"item_id": item.item_id, "axis": item.axis, "groups": item.groups}
    prompt = "\n\n".join(message.content for message in item.messages)
    return about | {"subset": item.subset, "cluster": item.cluster, "prompt": prompt}


def load_run(path: str | Path) -> Run:
    """Return the finished run of a directory. Raises BenchmarkError."""
    return Run(Path(path), directory.read_result(Path(path)))


def compare(a: Run | str | Path, b: Run | str | Path) -> Comparison:
    """Return the paired comparison of two runs of the same suite; `to_frame(comparison.differences)` is its table.
    Raises BenchmarkError if the runs cannot be compared.
    """
    return compare_directories(_path_of(a), _path_of(b))


def gate(
    runs: Run | Result | Sequence[Run | Result], *requirements: str, allow_unvalidated_judge: bool = False
) -> list[Verdict]:
    """Return whether each requirement, such as "stereoset.ss.upper < 60", holds on each number that it names. Raises
    BenchmarkError for a requirement that is malformed or names no number of these runs.
    """
    several = runs if isinstance(runs, Sequence) else [runs]
    results = [run.result if isinstance(run, Run) else run for run in several]
    return [
        verdict
        for requirement in requirements
        for verdict in judge(parse(requirement), results, allow_unvalidated_judge=allow_unvalidated_judge)
    ]


def suites() -> list[SuiteInfo]:
    """Return the suites with their items, modes, protocols, metrics and axes."""
    return registry.catalogue()


def metrics(suite: str) -> list[str]:
    """Return the names of a suite's metrics. Raises BenchmarkError for an unknown suite."""
    return list(registry.find(suite).metrics)


def score(
    suite: str,
    replies: Iterable[Mapping[str, Any]],
    *,
    model: str = "recorded",
    data: DataKind = "canonical",
    protocol: ProtocolName = "corrected",
    seed: int = 0,
) -> Run:
    """Score replies (`item_id`, `text`) recorded with this data, protocol and seed, offline. Raises BenchmarkError."""
    try:
        recorded = [msgspec.convert(dict(reply), Reply) for reply in replies]
    except msgspec.ValidationError as exc:
        raise BenchmarkError(f"a reply cannot be read: {exc}") from exc
    if not recorded:
        raise BenchmarkError("score needs at least one reply")
    samples = 1 + max(reply.sample for reply in recorded)
    options = RunOptions(suite=suite, model=model, data=data, protocol=protocol, seed=seed, samples=samples)
    plan, by_key = read_recorded(prepare(options), recorded, where="replies")
    return Run(None, score_replies(plan, by_key, provenance_of(plan, by_key)))


def audit(suite: str, model: str, base_url: str, **options: object) -> list[Run]:
    """Ask a served model the items of suites and return the finished runs; see `audit_async`."""
    return asyncio.run(audit_async(suite, model, base_url, **options))


async def audit_async(suite: str, model: str, base_url: str, **options: object) -> list[Run]:
    """Ask a served model the items of suites and return the finished runs. `suite`: names separated by commas, or
    "all". `base_url`: server with an OpenAI API. `options`: those of `biasgate audit run` by name, such as
    `data="embedded"`, `limit=100`, `out="runs/first"`, `mode="exact"`. Warns of suites left out. Raises BenchmarkError.
    """
    named_options = {"suite": suite, "model": model, "base_url": base_url, "quiet": True, **options}
    arguments = await asyncio.to_thread(_arguments, named_options)
    planned, left_out = await asyncio.to_thread(run_suites.plan_jobs, arguments)
    for name, reason in left_out:
        warnings.warn(f"left out: {name}: {reason}", stacklevel=2)
    if await run_suites.run_jobs(planned, arguments, asyncio.Event()) == INTERRUPTED:
        raise asyncio.CancelledError
    return [load_run(job.path) for job in planned]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BenchmarkError(f"audit: {message}")


def _arguments(options: Mapping[str, object]) -> argparse.Namespace:
    """Return the options as the command line parses them. Raises BenchmarkError for an unknown option."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.set_defaults(action="run")
    run_suites.add_arguments(parser)
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, Mapping):
            words.append(msgspec.json.encode(value).decode())
        elif isinstance(value, list | tuple):
            paths = [str(each) for each in value]
            words += paths if name == "evaluate" else [",".join(paths)]
        elif value is not True:
            words.append(str(value))
    return parser.parse_args(words)


def _path_of(run: Run | str | Path) -> Path:
    if not isinstance(run, Run):
        return Path(run)
    if run.path is None:
        raise BenchmarkError("a run that was scored in memory has no replies to compare: pass run directories")
    return run.path
