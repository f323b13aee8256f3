"""The plan of `regard-ft evaluate`: the models, the suites, and the directory of each run."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from auditors.types import CompletionError
from benchmarks.errors import BenchmarkError
from benchmarks.lab.regard_ft import effects, evaluation, utility
from benchmarks.lab.regard_ft.effects import Holdings
from benchmarks.lab.regard_ft.evaluation import About, Adapters, Evaluation
from benchmarks.lab.training import artefact
from benchmarks.run import client, directory
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.bbq.suite import BBQ
from benchmarks.suites.ltf_test.suite import LTFTest
from gateway.cli.audit.jobs import Job, concurrency, split, without_password
from gateway.features.lab.mitigate.regard_ft_serve import checkpoints

BASE = "base"


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model to evaluate; the base model is step 0."""

    name: str
    step: int
    path: Path
    """Its runs and what the utility probe found are kept there."""
    adapter_sha256: str | None
    jobs: tuple[Job, ...]


class ToEvaluate(msgspec.Struct, frozen=True, kw_only=True):
    out: Path
    base_name: str
    identity: artefact.Identity
    models: tuple[Model, ...]
    """The base model first, then checkpoints by step."""


def planned(arguments: argparse.Namespace) -> ToEvaluate:
    """Checks the arguments, the checkpoints and earlier replies; asks nothing. Raises BenchmarkError."""
    base_url = arguments.base_url or arguments.gateway
    if not base_url:
        raise BenchmarkError("evaluate needs a server: --base-url URL, or --gateway URL for a biasgate gateway")
    if not arguments.judge_model:
        raise BenchmarkError("evaluate needs --judge-model: one judge must read the essays of every model")
    cards = _chosen(arguments)
    first = next(iter(cards.values()))
    base = arguments.base_model or Path(first.identity.recipe.base_model)
    for step, card in cards.items():
        if card.identity.base_fingerprint != first.identity.base_fingerprint:
            raise BenchmarkError(
                f"{arguments.out_of_training}: step {step} was trained on another base model: train it again"
            )
    if base.is_dir():
        artefact.demand_base(arguments.out_of_training, first, base)
    out = arguments.out or arguments.out_of_training.with_name(f"{arguments.out_of_training.name}-evaluation")
    base_name = arguments.base_name or str(base)
    axes = None if arguments.axes is None else tuple(dict.fromkeys([effects.AXIS, *split(arguments.axes)]))
    shared = {"model": "", "limit": arguments.limit, "seed": arguments.seed}
    shared |= {"concurrency": concurrency(arguments.concurrency), "judge_model": arguments.judge_model}
    part = effects.EVAL if arguments.subset == effects.EVAL else None
    suite_options: list[dict[str, Any]] = [
        {"suite": LTFTest.name, "subset": part, "axes": axes},
        {"suite": BBQ.name, "data": arguments.data},
    ]
    plans = [prepare(RunOptions(**shared, **own)) for own in suite_options]
    named: list[tuple[int, str, str, str | None]] = [(0, base_name, BASE, None)]
    named += [(step, f"step-{step}", f"step-{step}", card.adapter_sha256) for step, card in cards.items()]
    models = tuple(
        Model(
            name=name,
            step=step,
            path=out / folder,
            adapter_sha256=digest,
            jobs=tuple(_job(arguments, plan, name, out / folder, base_url) for plan in plans),
        )
        for step, name, folder, digest in named
    )
    return ToEvaluate(out=out, base_name=base_name, identity=first.identity, models=models)


def _chosen(arguments: argparse.Namespace) -> dict[int, artefact.Card]:
    by_step = {step: artefact.card(path) for step, path in checkpoints(arguments.out_of_training).items()}
    if arguments.checkpoints is None:
        return by_step
    steps = split(arguments.checkpoints)
    for step in steps:
        if not step.isdecimal() or int(step) not in by_step:
            there = ", ".join(map(str, by_step))
            raise BenchmarkError(f'--checkpoints "{step}": {arguments.out_of_training} has {there}')
    return {step: card for step, card in by_step.items() if str(step) in steps}


def _job(arguments: argparse.Namespace, plan: Plan, name: str, path: Path, base_url: str) -> Job:
    options = msgspec.structs.replace(plan.options, model=name)
    own = msgspec.structs.replace(plan, options=options)
    about = directory.manifest(
        own,
        base_url=without_password(base_url),
        through_gateway=bool(arguments.gateway),
        api_key_env=arguments.api_key_env,
        judge_base_url=without_password(arguments.judge_base_url),
        judge_api_key_env=arguments.judge_api_key_env,
    )
    place = path / plan.suite.name
    if (place / directory.MANIFEST).exists():
        directory.demand_same(place, directory.read_manifest(place), about)
    return Job(place, own, about)


async def served(asking: client.SuiteClient, url: str) -> dict[str, str | None]:
    """Return the served models, each with the model that it is an adapter of, or None. Raises BenchmarkError."""
    try:
        entries = await asking.served()
    except CompletionError as exc:
        raise BenchmarkError(f"{url}: does not say which models it serves: {exc}") from exc
    parents = ((str(entry["id"]), entry.get("parent")) for entry in entries)
    return {name: parent if isinstance(parent, str) else None for name, parent in parents}


def begin(to_evaluate: ToEvaluate) -> None:
    """Makes what is not there yet. Raises BenchmarkError where runs of another training are."""
    digests = {model.name: model.adapter_sha256 for model in to_evaluate.models if model.adapter_sha256 is not None}
    now = Adapters(base_fingerprint=to_evaluate.identity.base_fingerprint, adapters=digests)
    evaluation.demand_same_adapters(to_evaluate.out, now)
    for model in to_evaluate.models:
        for job in model.jobs:
            if not (job.path / directory.MANIFEST).exists():
                directory.begin(job.path, job.about)


def evaluated(to_evaluate: ToEvaluate) -> Evaluation:
    """Evaluate the runs in the directories, all of which must be there."""
    bbq = to_evaluate.models[0].jobs[1].plan.suite
    held = {model.step: _holdings(model) for model in to_evaluate.models}
    tuned = {
        model.step: (model.name, model.adapter_sha256 or "", held[model.step])
        for model in to_evaluate.models
        if model.step
    }
    essays, answers = (job.plan for job in to_evaluate.models[0].jobs)
    trained_on = to_evaluate.identity.about
    fault = directory.read_result(to_evaluate.models[0].jobs[0].path).judge_fault
    about = About(
        base_model=to_evaluate.base_name,
        base_fingerprint=to_evaluate.identity.base_fingerprint,
        training_sha256=to_evaluate.identity.data_sha256,
        own_axes=tuple(trained_on["axes"]) if trained_on.get("own_sha256") else (),
        own_sha256=trained_on.get("own_sha256"),
        recipe_sha256=to_evaluate.identity.recipe_sha256,
        suites={plan.suite.name: plan.suite.version for plan in (essays, answers)},
        judge_model=essays.judge_model or "",
        judge_fault=fault,
        data=answers.dataset.kind,
        part=essays.options.subset or "full",
        axes=essays.options.axes,
        limit=essays.options.limit,
        seed=essays.options.seed,
    )
    return evaluation.evaluate(about, held[0], tuned, bbq)


def _holdings(model: Model) -> Holdings:
    essays, answers = (directory.observations(job.path) for job in model.jobs)
    probed = utility.read(model.path, model.name)
    if probed is None:
        raise BenchmarkError(f"{model.path}: no utility probe: run the same command again")
    return Holdings(essays, answers, probed)
