"""Prints the requests, tokens and minutes of planned runs, as `biasgate audit run --dry-run` does."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.run import client, directory
from benchmarks.run.forecast import Forecast, forecast
from benchmarks.run.result import Result
from gateway.cli.audit.jobs import Job
from gateway.terminal.tables import aligned

HEADS = ["suite", "items", "requests", "to the judge", "prompt tokens", "reply tokens", "expected", "minutes"]


def show(jobs: Sequence[Job], names: Sequence[str] | None = None, *, is_dry: bool = True) -> None:
    """Prints a line for each run and their sum. `names`: of the runs, in place of suite and model."""
    forecasts = [_of(job) for job in jobs]
    has_several = len({job.plan.options.model for job in jobs}) > 1
    names = names or [
        f"{job.plan.suite.name}, {job.plan.options.model}" if has_several else job.plan.suite.name for job in jobs
    ]
    each = zip(names, jobs, forecasts, strict=True)
    rows = [HEADS, *(_row(name, len(job.plan.items), forecast) for name, job, forecast in each)]
    if len(forecasts) > 1:
        rows.append(_row("all", sum(len(job.plan.items) for job in jobs), _sum(forecasts)))
    print(aligned(rows))
    print(
        ("nothing was sent; " if is_dry else "")
        + "requests: one a reply (--samples: fewer, exact: more); prompt tokens about, others at most, "
        "expected: reply tokens at the length of the newest finished run of the kind"
    )
    if any(job.plan.options.precision is not None for job in jobs):
        print("--precision: everything is counted, a run that stops early asks less")
    for suite in dict.fromkeys(job.plan.suite.name for job, each in zip(jobs, forecasts, strict=True) if each.has_more):
        print(f"{suite}: asks more items, made from the replies, which are not counted")
    if unknown := sorted(
        {str(job.path.parent) for job, forecast in zip(jobs, forecasts, strict=True) if forecast.seconds is None}
    ):
        print(f"minutes: no finished run of this kind under {', '.join(unknown)}; one with --limit 50 gives the rate")


def _of(job: Job) -> Forecast:
    path, plan, about = job
    host = client.host(about.base_url or "")
    return forecast(plan, n_answered=directory.n_answered(path), finished=_finished_beside(path), host=host)


def _finished_beside(path: Path) -> Iterator[Result]:
    for run_path in directory.finished_under(path.parent):
        try:
            yield directory.read_result(run_path)
        except BenchmarkError:
            continue  # of an older version, or broken: it gives no rate


def _row(name: str, n_items: int, forecast: Forecast) -> list[str]:
    minutes = "unknown" if forecast.seconds is None else f"{forecast.seconds / 60:.1f}"
    counts = (n_items, forecast.requests, forecast.judge_requests, forecast.prompt_tokens, forecast.reply_tokens)
    expected = "unknown" if forecast.expected_reply_tokens is None else f"{forecast.expected_reply_tokens:,}"
    return [name, *(f"{count:,}" for count in counts), expected, minutes]


def _sum(forecasts: Sequence[Forecast]) -> Forecast:
    seconds = [forecast.seconds for forecast in forecasts if forecast.seconds is not None]
    expected = [each.expected_reply_tokens for each in forecasts if each.expected_reply_tokens is not None]
    names = ("requests", "judge_requests", "prompt_tokens", "reply_tokens")
    return Forecast(
        **{name: sum(getattr(forecast, name) for forecast in forecasts) for name in names},
        expected_reply_tokens=sum(expected) if len(expected) == len(forecasts) else None,
        has_more=any(forecast.has_more for forecast in forecasts),
        seconds=sum(seconds) if len(seconds) == len(forecasts) else None,
    )
