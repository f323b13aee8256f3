"""Turns the arguments of `audit run` into the runs they ask for: options, directories, addresses of servers."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from auditors.addresses import without_credentials
from auditors.text.own_prompts import MOST_BYTES, PromptFileError, read_prompts
from auditors.text.user_files import as_utf8
from benchmarks.datasets import fetching, published
from benchmarks.errors import BenchmarkError
from benchmarks.run import directory
from benchmarks.run.plan import Plan, RunOptions, check, prepare
from benchmarks.suites import registry
from benchmarks.suites.common import mitigation
from benchmarks.suites.protocol import DataKind, Observation, Suite

GIVEN = (
    *("model", "mode", "protocol", "data", "limit", "seed", "samples", "few_shot", "subset", "judge_model"),
    *("embedder", "thinking", "precision", "repeat_share"),
)
"""Options of a run that are arguments of the same name; an omitted argument keeps what the run has."""
FEW = 240
"""Most items of a suite with `--suite all --data embedded`, which takes minutes."""
THIRD_OPTION_HELP = "stereoset: a neutral third option, built in for --data embedded, or from a file {item id: text}"


class Job(NamedTuple):
    """One run: where it is kept, what it asks, how its servers are reached."""

    path: Path
    plan: Plan
    about: directory.Manifest


class LeftOut(NamedTuple):
    """A suite of "all" that cannot be run as asked, and why."""

    suite: str
    reason: str


def new(arguments: argparse.Namespace) -> tuple[list[Job], list[LeftOut]]:
    """A run of each suite; "all" leaves some out, with reasons. Raises BenchmarkError for what cannot be run."""
    for name in ("suite", "model"):
        if not getattr(arguments, name):
            raise BenchmarkError(
                f"audit {arguments.action} needs --{name}; see biasgate audit {arguments.action} --help"
            )
    base_url = arguments.base_url or arguments.gateway
    if not base_url:
        raise BenchmarkError(
            f"audit {arguments.action} needs a server: --base-url URL, or --gateway URL for a biasgate gateway"
        )
    is_all = arguments.suite == "all"
    names = sorted(registry.SUITES) if is_all else split(arguments.suite)
    jobs, left_out = [], []
    for name in names:
        try:
            plan = _plan(arguments, registry.find(name))
        except BenchmarkError as exc:
            if not is_all:
                raise
            left_out.append(LeftOut(name, str(exc)))
            continue
        for variant in _at_temperatures(plan, arguments.temperature):
            path = _directory(arguments, variant, is_one_of_several=len(names) > 1)
            jobs.append(Job(path, variant, directory.manifest(variant, **_servers(arguments, base_url))))
    return jobs, left_out


def resumed(arguments: argparse.Namespace) -> list[Job]:
    """The run in the directory named, or every run in the directories below it."""
    root: Path = arguments.resume
    if arguments.out is not None:
        raise BenchmarkError("--resume completes the directory it names: omit --out")
    below = sorted(path.parent for path in root.glob(f"*/{directory.MANIFEST}"))
    paths = [root] if (root / directory.MANIFEST).exists() or not below else below
    return [_resumed_one(path, arguments) for path in paths]


def split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def api_key(variable: str | None) -> str | None:
    """Raises BenchmarkError when the variable is not set."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise BenchmarkError(f'environment variable "{variable}" (--api-key-env) is not set: export it')
    return key


def _plan(arguments: argparse.Namespace, suite: Suite) -> Plan:
    options = _options(arguments, RunOptions(suite=suite.name, model=arguments.model))
    if (arguments.data is None or arguments.suite == "all") and options.data not in suite.n_items:
        print(f"{suite.name}: its items are built in, no {options.data} data exists: running these", file=sys.stderr)
        options = msgspec.structs.replace(options, data="embedded")
    n = suite.n_items.get("embedded", 0)
    if (arguments.suite, arguments.data) == ("all", "embedded") and options.limit is None and n > FEW:
        print(f"{suite.name}: {FEW} of {n:,} built-in items; --limit asks more", file=sys.stderr)
        options = msgspec.structs.replace(options, limit=FEW)
    check(options, suite)
    source = suite.source if arguments.mirror and options.data == "canonical" else None
    if source is not None and published.state(source).state != "present":
        fetching.fetch(source, mirror=arguments.mirror)
    return prepare(options, outputs=outputs(options))


def outputs(options: RunOptions) -> Mapping[str, Sequence[Observation]] | None:
    """Observations of runs to evaluate, by model; with its server where several have its name. None without runs.
    BenchmarkError: unfinished, unlike, or a second run of the same model.
    """
    if not options.evaluate:
        return None
    results = [(path, directory.read_result(path)) for path in map(Path, options.evaluate)]
    n_of = Counter(theirs.model for _, theirs in results)
    by_model: dict[str, Sequence[Observation]] = {}
    for path, theirs in results:
        if directory.read_manifest(path).options.prompts != options.prompts:
            raise BenchmarkError(f"{path}: a run of other axes: evaluate it with its file, in --own, and no other")
        for word in ("suite", "protocol"):
            recorded, other = getattr(theirs, word), getattr(options, word)
            if recorded != other:
                raise BenchmarkError(
                    f'{path}: a run of {word} "{recorded}", not "{other}": its texts cannot be evaluated'
                )
        name = theirs.model if n_of[theirs.model] == 1 else writer_at(theirs.model, theirs.provenance.base_url_host)
        if name in by_model:
            raise BenchmarkError(f'{path}: a second run of "{name}": evaluate one run of each model')
        by_model[name] = directory.observations(path)
    return by_model


def writer_at(model: str, host: str | None) -> str:
    """Return the name of a model among others of its name at other servers, as the ids of questions have it."""
    return f"{model} at {host}"


def _servers(arguments: argparse.Namespace, base_url: str | None) -> dict[str, Any]:
    return {
        "base_url": without_password(base_url),
        "through_gateway": bool(arguments.gateway),
        "api_key_env": arguments.api_key_env,
        "judge_base_url": without_password(arguments.judge_base_url),
        "judge_api_key_env": arguments.judge_api_key_env,
        "embedder_base_url": without_password(arguments.embedder_base_url),
    }


def _resumed_one(path: Path, arguments: argparse.Namespace) -> Job:
    """Build the job of a resumed run. A writer of the directory must not choose which server is sent a key."""
    recorded = directory.read_manifest(path)
    options = _options(arguments, recorded.options)
    if arguments.suite not in (None, "all") and recorded.options.suite not in split(arguments.suite):
        options = msgspec.structs.replace(options, suite=registry.find(arguments.suite).name)
    plan = _at_temperatures(prepare(options, outputs=outputs(options)), arguments.temperature)[0]
    now = msgspec.structs.replace(
        recorded,
        options=plan.options,
        suite_version=plan.suite.version,
        dataset_sha256=plan.dataset.sha256,
        prompt_sha256=plan.prompt_sha256,
        **_servers(arguments, arguments.base_url or arguments.gateway),
    )
    directory.demand_same(path, recorded, now)
    suite = plan.suite
    needed = (  # without these the rest would be asked of another server than the beginning
        (now.base_url is None, "--base-url URL or --gateway URL"),
        (suite.needs_judge and recorded.judge_base_url and not now.judge_base_url, "--judge-base-url URL"),
        (suite.needs_embedder and recorded.embedder_base_url and not now.embedder_base_url, "--embedder-base-url URL"),
    )
    if missing := [argument for is_missing, argument in needed if is_missing]:
        used = (("--api-key-env VAR", recorded.api_key_env), ("--judge-api-key-env VAR", recorded.judge_api_key_env))
        names = [argument for argument, value in used if value]
        keys = f", and {' and '.join(names)} where the server wants a key" if names else ""
        raise BenchmarkError(
            f"{path}: servers and keys are not taken from a run directory: give {', '.join(missing)} again with "
            f"--resume{keys}"
        )
    return Job(path, plan, now)


def _options(arguments: argparse.Namespace, base: RunOptions) -> RunOptions:
    changes = {name: value for name in GIVEN if (value := getattr(arguments, name)) is not None}
    if arguments.mitigation is not None:
        added = mitigation.find(arguments.mitigation)
        changes |= {"mitigation": added.name, "mitigation_text": added.text}
    if arguments.axes is not None:
        changes["axes"] = tuple(split(arguments.axes))
    if arguments.extra_body is not None:
        changes["extra_body"] = extra_body(arguments.extra_body)
    if arguments.prompts is not None:
        changes["prompts"] = own_questions(arguments.prompts, base.suite, changes.get("data", base.data))
    if arguments.evaluate:
        changes["evaluate"] = tuple(map(str, arguments.evaluate))
    return msgspec.structs.replace(
        base, **changes, concurrency=concurrency(arguments.concurrency), keep_reasoning=arguments.keep_reasoning
    )


def own_questions(path: Path, suite: str, data: DataKind) -> str:
    """Reads the text of a user's file for a suite, or of one that it brings. Raises BenchmarkError, one line."""
    of_suite = registry.find(suite)
    if (sha256 := of_suite.built_in_prompts.get(str(path))) is not None:
        if data != "embedded":
            raise BenchmarkError(f"{suite}: {path} is of embedded items: add --data embedded, or name a file of yours")
        return published.load_built_in(of_suite.name, str(path), sha256)
    return (own_prompts if of_suite.needs_prompts else own_file)(path)


def own_prompts(path: Path) -> str:
    """Reads the text of a file of prompts. Raises BenchmarkError, one line, for a file that cannot be taken."""
    content = own_file(path)
    try:
        read_prompts(content.encode())  # knows the longest file
    except PromptFileError as exc:
        raise BenchmarkError(f"{path}: {exc}") from exc
    return content


def own_file(path: Path) -> str:
    """Reads the text of a user's file, which its suite checks. Raises BenchmarkError."""
    try:
        with path.open("rb") as file:
            return as_utf8(file.read(MOST_BYTES + 1)).decode()
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc


def extra_body(text: str) -> dict[str, Any]:
    """The object that --extra-body gives. Raises BenchmarkError, one line, for anything else."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        raise BenchmarkError(
            f"--extra-body must be a JSON object, e.g. '{{\"min_p\": 0.1}}', not {text[:50]!r}: {exc}"
        ) from None


def concurrency(text: str) -> int | None:
    """Requests in flight as --concurrency says, None for auto. Raises BenchmarkError for anything else."""
    if text == "auto":
        return None
    if not text.isdecimal():
        raise BenchmarkError(f'--concurrency "{text}" must be auto or a whole number')
    return int(text)


def _at_temperatures(plan: Plan, text: str | None) -> list[Plan]:
    if text is None:
        return [plan]
    plans = []
    for value in split(text):
        try:
            options = msgspec.structs.replace(plan.options, temperature=float(value))
        except ValueError:
            raise BenchmarkError(f'--temperature "{value}" must be a number') from None
        check(options, plan.suite)
        plans.append(msgspec.structs.replace(plan, options=options))
    return plans


def _directory(arguments: argparse.Namespace, plan: Plan, *, is_one_of_several: bool) -> Path:
    if arguments.out is not None:
        out: Path = arguments.out
        out = out / plan.suite.name if is_one_of_several else out
        is_swept = "," in (arguments.temperature or "")
        return out / f"temperature-{plan.options.temperature:g}" if is_swept else out
    model = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in plan.options.model)
    at = "" if plan.options.temperature is None else f"-t{plan.options.temperature:g}"
    return Path("runs") / f"{plan.suite.name}-{model}{at}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"


def without_password(url: str | None) -> str | None:
    return None if url is None else without_credentials(url)
