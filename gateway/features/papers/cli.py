"""`biasgate audit paper`: runs the suites of a paper on the user's models and rebuilds its tables and figures."""

import argparse
import asyncio
import shlex
import sys
from datetime import datetime
from itertools import chain
from pathlib import Path

from auditors.structs import combine
from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import directory
from benchmarks.run.stopping import in_thread, unless_stopped
from gateway.cli.actions import write_file
from gateway.cli.audit import forecasts, jobs, validations
from gateway.cli.audit.running import INTERRUPTED, Manner, stop_on_signal
from gateway.features.papers import recipe, rendering, runs
from gateway.features.papers.drawings import figures_of, table_of
from gateway.features.papers.tables import Numbers

HELP = """\
models.toml has a [[models]] for each model: name, base_url, model (its name at the server, if another), and as known
api_key_env, provider, family, parameters (in billions), released, quantisation_of and without_filters. OUT/index.html
has every table and figure; tables/ has each table as page, CSV and LaTeX, figures/ each figure as SVG, runs/MODEL/RUN
each run's directory. A run that fails leaves its reason in its cells, and exit code 1.

Example:
  biasgate audit paper implicit --models models.toml --judge gpt-4o --limit 40 --dry-run
  biasgate audit paper implicit --models models.toml --judge gpt-4o --resume runs/paper-implicit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", choices=recipe.NAMES)
    parser.add_argument("--models", type=Path, required=True, metavar="FILE.toml", help="the models and their servers")
    parser.add_argument("--tables", metavar="N[,N...]", help="these tables only (default: all)")
    parser.add_argument("--data", choices=("embedded", "canonical"), help="default canonical where a suite has it")
    parser.add_argument("--limit", type=int, metavar="N", help="ask at most N items of each run, spread over the data")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    judge = parser.add_argument_group("judge")
    judge.add_argument("--judge", metavar="NAME", help="judging model; one of models.toml is asked where it is served")
    judge.add_argument("--judge-base-url", metavar="URL", help="where the judge is served (default: as the model)")
    judge.add_argument("--judge-api-key-env", metavar="VAR", help="environment variable with that server's key")
    validations.add_arguments(judge)
    parser.add_argument("--embedder", metavar="NAME_OR_DIR", help="compares texts by embedding, for cogs")
    parser.add_argument("--embedder-base-url", metavar="URL", help="where that model is served (default: loaded here)")
    parser.add_argument("--people", type=Path, metavar="FILE", help="people's choices, by annotate export; for cogs")
    parser.add_argument(
        "--from", dest="earlier", nargs="+", type=Path, default=[], metavar="RUN", help="use finished runs that fit"
    )
    parser.add_argument("--concurrency", metavar="auto|N", default="auto", help="requests in flight to a server")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default runs/paper-NAME-TIME")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="complete what was begun there, with the same options"
    )
    parser.add_argument("--plain-latex", action="store_true", help="LaTeX without intervals and n, as the papers print")
    parser.add_argument("--dry-run", action="store_true", help="print what would be asked; send nothing")
    parser.add_argument("--quiet", action="store_true", help="print errors and the folder only")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    stop = stop_on_signal()
    try:
        asking, of = await unless_stopped(stop, in_thread(_planned, arguments), lambda: RunStopped(0, 0), within=0.0)
        todo = await in_thread(asking.jobs, evaluating=False)
        _show_plan(asking, todo, arguments)
        if arguments.dry_run:
            return 1 if runs.failures(asking.outcomes) else 0
        for job, _ in todo:
            for variable in (job.about.api_key_env, job.about.judge_api_key_env):
                jobs.api_key(variable)
            await in_thread(runs.begin, job)
        validation = await in_thread(validations.find, arguments)
        manner = Manner(validation=validation, is_quiet=arguments.quiet)
        again = f"use the same options with --resume {shlex.quote(str(arguments.out))}"
        await asking.ask(todo, stop, manner, again)
        await asking.ask(await in_thread(asking.jobs, evaluating=True), stop, manner, again)
    except (RunStopped, asyncio.CancelledError):
        root = shlex.quote(str(arguments.resume or arguments.out))
        print(f"stopped; complete it with the same options and --resume {root}", file=sys.stderr)
        return INTERRUPTED
    await in_thread(_write, asking, of, arguments)
    missing = runs.failures(asking.outcomes)
    for line in missing:
        print(visible_line(line), file=sys.stderr)
    return 1 if missing else 0


def _planned(arguments: argparse.Namespace) -> tuple[runs.Asking, recipe.Recipe]:
    of = runs.of_recipe(recipe.load(arguments.paper), jobs.split(arguments.tables) if arguments.tables else None)
    listed = runs.read_models(arguments.models)
    if arguments.resume is not None and arguments.out is not None:
        raise BenchmarkError("--resume completes the directory it names: omit --out")
    time = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    arguments.out = arguments.resume or arguments.out or Path("runs", f"paper-{arguments.paper}-{time}")
    if arguments.resume is None and arguments.out.is_dir() and any(arguments.out.iterdir()):
        raise BenchmarkError(f"{arguments.out}: the directory is not empty: use --resume {arguments.out}")
    judge = next((model for model in listed if model.name == arguments.judge), None)
    settings = combine(
        runs.Settings,
        arguments,
        judge=judge.served if judge else arguments.judge,
        judge_base_url=arguments.judge_base_url or (judge.base_url if judge else None),
        judge_api_key_env=arguments.judge_api_key_env or (judge.api_key_env if judge else None),
        concurrency=jobs.concurrency(arguments.concurrency),
    )
    asking = runs.Asking(of.runs, listed, settings, arguments.out)
    below = (sorted(path.parent for path in root.rglob(directory.RESULT)) or [root] for root in arguments.earlier)
    for line in asking.take(chain(*below)):
        print(visible_line(line), file=sys.stderr)
    if arguments.resume is not None:
        asking.resume()
    return asking, of


def _show_plan(asking: runs.Asking, todo: list[tuple[jobs.Job, runs.Place]], arguments: argparse.Namespace) -> None:
    if arguments.quiet and not arguments.dry_run:
        return
    if todo:
        names = [f"{run}, {model}" for _, (model, run) in todo]
        forecasts.show([job for job, _ in todo], names, is_dry=arguments.dry_run)
    for each in (each for each in asking.runs if each.evaluates):
        print(f"{each.name}: asks about the texts of {each.evaluates} once they are there; not counted")
    if any(job.plan.suite.needs_judge for job, _ in todo) and not asking.settings.judge:
        print("no --judge, so each model judges its own replies", file=sys.stderr)
    for line in runs.failures(asking.outcomes):
        print(visible_line(line), file=sys.stderr)


def _write(asking: runs.Asking, of: recipe.Recipe, arguments: argparse.Namespace) -> None:
    people = {} if arguments.people is None else runs.read_people(arguments.people, asking.outcomes)
    numbers = Numbers(of, asking.models, asking.outcomes, people)
    drawn = [table for table in of.tables if not table.pairs or any(numbers.pairs(table))]
    tables = [numbers.table(table) for table in drawn] + [table_of(numbers, each) for each in of.relations]
    figures = [(drawing, figures_of(numbers, drawing)) for drawing in of.figures]
    arguments.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in ("tables", "figures"):
        (arguments.out / folder).mkdir(exist_ok=True)
    write_file(arguments.out / "index.html", rendering.page(of, tables, figures))
    write_file(arguments.out / "tables" / "all.tex", rendering.latex(of, tables, is_plain=arguments.plain_latex))
    for name, svg in rendering.pictures(figures):
        write_file(arguments.out / "figures" / f"{name}.svg", svg)
    for table in tables:
        path = arguments.out / "tables" / table.id
        write_file(path.with_suffix(".html"), rendering.page(of, [table], []))
        write_file(path.with_suffix(".csv"), rendering.as_csv(table))
        write_file(path.with_suffix(".tex"), rendering.latex(of, [table], is_plain=arguments.plain_latex))
        if not arguments.quiet:
            print(f"{rendering.terminal(table)}\n")
    for name, reason in of.not_rebuilt.items() if not arguments.quiet else ():
        print(f"Not rebuilt: {name}: {reason}")
    print(arguments.out / "index.html")
