"""The replies of a run as tasks for people to label: all that have a text, or some of them drawn at random."""

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.labelling.forms import FormName
from auditors.labelling.tasks import Origin, Task
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.suites import registry
from benchmarks.suites.protocol import Item, Reply


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks from a single run, in random order."""

    form: FormName
    tasks: list[Task]
    n_usable: int
    """Number of replies that the tasks were drawn from."""
    n_without: int
    """Replies about which the form asks nothing, or without a text."""


def draw(path: Path, *, form: FormName | None = None, n: int | None = None, seed: int = 0) -> Drawn:
    """`n` tasks of a run (None: all), equally probable. BenchmarkError: no run, no such form, fewer than n replies."""
    options = directory.read_manifest(path).options
    suite = registry.find(options.suite)
    if not suite.labelling_forms:
        raise BenchmarkError(
            f"{path}: nothing of {options.suite} is for people to label: its replies are read by rules"
        )
    form = form or suite.labelling_forms[0]
    if form not in suite.labelling_forms:
        raise BenchmarkError(f'{options.suite} has no form "{form}": take {" or ".join(suite.labelling_forms)}')
    tasks: list[Task] = []
    n_without = 0
    for observation in directory.observations(path):
        item, reply = observation.item, observation.reply
        question = None
        if reply.text:
            question = suite.labelling_question(observation, form=form, protocol=options.protocol, seed=options.seed)
        if question is None:
            n_without += 1
            continue
        origin = Origin(
            suite=options.suite,
            model=options.model,
            item_id=item.item_id,
            sample=reply.sample,
            cluster=item.cluster,
            axis=item.axis,
            group=question.group,
            reference=question.reference,
            judge=question.judge,
            judge_model=(reply.judge or {}).get("model"),
            prompt_sha256=(reply.judge or {}).get("prompt_sha256"),
            judge_thinking=(reply.judge or {}).get("thinking"),
            judge_fingerprint=(reply.judge or {}).get("fingerprint"),
            key=question.key,
        )
        tasks.append(
            Task(
                id=_id(form, options.suite, options.model, item, reply), form=form, shown=question.shown, origin=origin
            )
        )
    return Drawn(form=form, tasks=_sample(tasks, n, seed, path), n_usable=len(tasks), n_without=n_without)


def _sample(tasks: Sequence[Task], n: int | None, seed: int, path: Path) -> list[Task]:
    if not tasks:
        raise BenchmarkError(f"{path}: no reply can be labelled: none has a text that the form asks about")
    size = len(tasks) if n is None else n
    if not 1 <= size <= len(tasks):
        raise BenchmarkError(
            f"{path}: {len(tasks)} replies can be labelled: draw 1 to {len(tasks)} of them, not {size}"
        )
    drawn = random.Random(f"{seed}/labelling").sample(tasks, len(tasks))[:size]  # a larger sample has the smaller in it
    probability = size / len(tasks)
    return [
        msgspec.structs.replace(task, origin=msgspec.structs.replace(task.origin, inclusion_probability=probability))
        for task in drawn
    ]


def _id(form: FormName, suite: str, model: str, item: Item, reply: Reply) -> str:
    """The same for the same reply to the same question, in whatever run directory it lies."""
    parts = [form, suite, model, item.item_id, reply.sample, reply.text, [choice.text for choice in item.choices]]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
