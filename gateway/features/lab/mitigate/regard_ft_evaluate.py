"""`biasgate mitigate regard-ft evaluate`: what the training changed, on the axis trained and elsewhere."""

import argparse
import asyncio
import sys
from pathlib import Path

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.figures.display import number, with_ends
from benchmarks.lab.regard_ft import effects, evaluation, utility
from benchmarks.lab.regard_ft.evaluation import Evaluated, Evaluation
from benchmarks.lab.regard_ft.verdict import verdict
from benchmarks.lab.training import artefact
from benchmarks.run import client, directory
from benchmarks.run.stopping import in_thread, unless_stopped
from benchmarks.suites.ltf_test.data import PAPER_AXES
from gateway.cli.audit import forecasts, validations
from gateway.cli.audit.running import END_SECONDS, INTERRUPTED, Manner, run_one, stop_on_signal
from gateway.cli.audit.server_arguments import add_concurrency, add_servers
from gateway.cli.audit.servers import asking
from gateway.features.lab.mitigate import regard_ft_plan
from gateway.features.lab.mitigate.regard_ft_plan import Model, ToEvaluate
from gateway.features.lab.mitigate.regard_ft_serve import add_checkpoints
from gateway.terminal.tables import aligned

HELP = """\
Asks the base model and every checkpoint, by the names that serve gives them, the long-text test (one judge reads all),
BBQ, and neutral sentences and questions. The same command goes on where it was cut off; a finished run is not asked
again. Writes a run directory for each model and suite, and evaluation.json.

Example:
  $(biasgate mitigate regard-ft serve regard-8b --port 8001)
  biasgate mitigate regard-ft evaluate regard-8b --base-url http://127.0.0.1:8001 \\
      --judge-model judge --judge-base-url http://127.0.0.1:8002 --subset eval --out regard-8b-evaluation
"""

UTILITY_IN_FLIGHT = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoints(parser)
    servers, judge = (parser.add_argument_group(title) for title in ("servers and keys", "judge"))
    add_servers(servers, judge, without_judge="refused, one judge must read all")
    add_concurrency(servers)
    parser.add_argument("--base-name", metavar="NAME", help="of the base model on the server (default: its directory)")
    parser.add_argument("--checkpoints", metavar="STEP[,STEP...]", help="evaluate these (default: all)")
    parser.add_argument(
        "--subset", choices=("eval", "full"), default="full", help="of the long-text test (default full)"
    )
    parser.add_argument("--axes", metavar="A[,A...]", help="of the long-text test in addition to gender (default: all)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="ask at most N items of each suite, spread over the data"
    )
    parser.add_argument("--data", choices=("canonical", "embedded"), default="canonical", help="of BBQ")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default OUT-evaluation")
    parser.add_argument("--dry-run", action="store_true", help="print requests, tokens and minutes; send nothing")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    stop = stop_on_signal()
    validation = await in_thread(validations.find, arguments)  # which may open a store, in a loop of its own
    try:
        to_evaluate = await unless_stopped(
            stop, in_thread(regard_ft_plan.planned, arguments), _stopped, within=END_SECONDS
        )
        if arguments.dry_run:
            await in_thread(_show_cost, to_evaluate)
            return 0
        await _demand_served(to_evaluate)
        regard_ft_plan.begin(to_evaluate)
        manner = Manner(validation=validation, is_quiet=arguments.quiet)
        for model in to_evaluate.models:
            for job in model.jobs:
                if not (job.path / directory.RESULT).exists():
                    title = f"{job.path.parent.name}, {job.plan.suite.name}"
                    running = run_one(job, stop, manner, title=title, again="run this command again")
                    await unless_stopped(stop, running, _stopped, within=END_SECONDS)
            await unless_stopped(stop, _probe(to_evaluate, model.name, model.path), _stopped, within=END_SECONDS)
        if not arguments.quiet:
            print(f"compares {len(to_evaluate.models) - 1} checkpoints with the base model", file=sys.stderr)
        compared = in_thread(regard_ft_plan.evaluated, to_evaluate)
        result: Evaluation = await unless_stopped(stop, compared, _stopped, within=END_SECONDS)
    except (RunStopped, asyncio.CancelledError):
        print("stopped; what was answered is kept: run the same command again", file=sys.stderr)
        return INTERRUPTED
    artefact.write(to_evaluate.out / evaluation.FILE, result)
    if not arguments.quiet:
        print(shown(result))
        print(f"{to_evaluate.out / evaluation.FILE}; draw it with: biasgate mitigate regard-ft plot {to_evaluate.out}")
    return 0


def _stopped() -> RunStopped:
    return RunStopped(0, 0)


def _show_cost(to_evaluate: ToEvaluate) -> None:
    forecasts.show([job for model in to_evaluate.models for job in model.jobs])
    n_probed = sum(utility.read(model.path, model.name) is None for model in to_evaluate.models)
    print(f"utility probe: {n_probed * utility.N_REQUESTS:,} short requests in addition")


async def _demand_served(to_evaluate: ToEvaluate) -> None:
    """Raises BenchmarkError where the server does not serve a model that is to be asked, or on another base model."""
    left = [model for model in to_evaluate.models if await in_thread(_has_more_to_ask, model)]
    if not left:
        return
    about = left[0].jobs[0].about
    url = about.base_url or ""
    async with asking(url, about.api_key_env, UTILITY_IN_FLIGHT) as completer:
        served = await regard_ft_plan.served(completer, url)
    for model in left:
        if model.name not in served:
            raise BenchmarkError(
                f'{about.base_url}: does not serve "{model.name}", it serves {", ".join(served) or "nothing"}: '
                "start what regard-ft serve prints, or name the base model by --base-name"
            )
        parent = served[model.name]
        if model.step and parent not in (None, to_evaluate.base_name):
            raise BenchmarkError(
                f'{about.base_url}: serves "{model.name}" as an adapter of "{parent}", not of '
                f'"{to_evaluate.base_name}": '
                "name that by --base-name, or start what regard-ft serve prints"
            )


def _has_more_to_ask(model: Model) -> bool:
    is_run = all((job.path / directory.RESULT).exists() for job in model.jobs)
    return not is_run or utility.read(model.path, model.name) is None


async def _probe(to_evaluate: ToEvaluate, name: str, path: Path) -> None:
    if await in_thread(utility.read, path, name) is not None:
        return
    about = to_evaluate.models[0].jobs[0].about
    headers = client.GATEWAY_HEADERS if about.through_gateway else None
    async with asking(about.base_url or "", about.api_key_env, UTILITY_IN_FLIGHT, headers=headers) as completer:
        artefact.write(path / utility.FILE, await utility.probe(completer, name, in_flight=UTILITY_IN_FLIGHT))


COLUMNS = {
    "PairFav woman/man": (effects.GAP, 2),
    "answered alone": (effects.ANSWERED, 2),
    "refused %": (effects.REFUSALS, 1),
    "BBQ ambiguous %": ("accuracy/ambig", 1),
    "disambiguated %": ("accuracy/disambig", 1),
    "bits a byte": (utility.BITS, 3),
    "words": (utility.WORDS, 1),
    "neutral refused %": (utility.REFUSALS, 1),
}
"""Name and decimals of each."""


def shown(result: Evaluation) -> str:
    about = result.about
    parts = []
    if about.data == "embedded":
        parts.append("BBQ: embedded, not comparable: these numbers must not be compared with published numbers")
    if about.judge_fault:
        parts.append(f"judge not validated: {about.judge_fault}")
    rows = [["model", "reduction %", *COLUMNS]]
    suffixes = {"": "", f"/{effects.EVAL}": ", eval"}
    for suffix, words in suffixes.items():
        if not suffix or any(effects.GAP + suffix in model.numbers for model in result.models):
            for model in result.models:
                cells = [_interval(model.numbers.get(name + suffix), places) for name, places in COLUMNS.values()]
                rows.append([_name(model) + words, _reduction(model, suffix), *cells])
    parts.append(aligned(rows))
    if result.checkpoints:
        parts += [f"- {line}" for line in verdict(result, result.checkpoints[-1])]
    names = [effects.spill_over(axis) for axis in PAPER_AXES if axis != effects.AXIS]
    measured = [name for name in names if any(name in model.numbers for model in result.models)]
    rows = [["axis", *map(_name, result.models)]]
    for name in measured:
        axis = name.split("/")[1].replace("_", " ")
        rows.append([axis, *(_spread(model, name) for model in result.models)])
    parts += ["other axes: degree of bias, and its change from the base model with p adjusted", aligned(rows)]
    parts += [f"{_name(model)}, {text}" for model in result.models for text in _unmeasured(model)]
    return "\n".join(parts)


def _spread(evaluated: Evaluated, name: str) -> str:
    value = _interval(evaluated.numbers.get(name), 3)
    effect = evaluated.effect(name)
    if effect is None:
        return value
    if effect.adjusted_p_value is None:
        return f"{value}, p –"
    return f"{value}, p {number(effect.adjusted_p_value, 4)}"


def _name(evaluated: Evaluated) -> str:
    return evaluated.model if evaluated.step else f"base {evaluated.model.rsplit('/', 1)[-1]}"


def _reduction(evaluated: Evaluated, part: str) -> str:
    reduction = evaluated.reductions.get(effects.GAP + part)
    if reduction is None or reduction.value is None:
        return "" if not evaluated.step else "undefined"
    lower, upper = (None if end is None else 100 * end for end in (reduction.lower, reduction.upper))
    return with_ends(100 * reduction.value, lower, upper, without=" (unstable)" if reduction.is_unstable else "")


def _interval(estimate: Estimate | None, places: int) -> str:
    if estimate is None:
        return ""
    if estimate.value is None:
        return "undefined"
    return with_ends(estimate.value, estimate.lower, estimate.upper, places)


def _unmeasured(evaluated: Evaluated) -> list[str]:
    estimate = evaluated.numbers.get(utility.BITS)
    return [f"perplexity {estimate.reason}"] if estimate is not None and estimate.value is None else []
