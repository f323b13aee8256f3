"""Computes the numbers of a bundle again from its items and replies, and compares them with its result.json."""

import math
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError, DatasetError
from benchmarks.reporting.headline import key_of
from benchmarks.run import directory
from benchmarks.run.follow_up import extend_plan
from benchmarks.run.plan import Key, Plan, prepare, prompt_sha256, prompts_sha256
from benchmarks.run.result import Result
from benchmarks.run.score import read_reply, score
from benchmarks.suites import registry
from benchmarks.suites.protocol import Dataset, Item, Observation, Reply, Suite
from gateway.features.bundles import building
from gateway.features.bundles.archive import Bundle
from gateway.features.bundles.verification import verified

TOLERANCE = 1e-9
"""Relative and absolute difference up to which numbers count as equal: another processor may add in another order."""
MAX_RESULT_BYTES = 1 << 28


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers computed again, and their differences from those in the bundle."""

    result: Result
    """Result as computed now."""
    n_same: int
    differences: Sequence[str]
    """One line each."""
    notes: Sequence[str]
    """Notes on values taken as recorded, and on numbers that could not be computed."""


def rescore(path: Path, data_dir: Path | None = None) -> Rescored:
    """Score a bundle's replies again, regardless of the signer. Raises BenchmarkError if files or suite differ."""
    with closing(Bundle(path)) as bundle, tempfile.TemporaryDirectory(prefix="biasgate-bundle-") as name:
        folder = Path(name)
        if failures := verified(bundle).failures:
            raise BenchmarkError(f"{path}: {failures[0]}: biasgate audit verify {path} says more")
        for file_name in (building.RESULT, building.MANIFEST, building.ITEMS, building.RESPONSES):
            if (member := bundle.members.get(file_name)) is None:
                continue
            if file_name in (building.RESULT, building.MANIFEST) and member.size > MAX_RESULT_BYTES:
                raise BenchmarkError(f"{file_name}: {member.size} bytes are more than a run ever writes")
            with (folder / file_name).open("wb") as file:
                file.writelines(bundle.pieces(file_name))
        try:
            return _rescored(path, folder, data_dir)
        except RecursionError as exc:
            raise BenchmarkError(f"{path}: holds JSON that is nested too deep to be of a run") from exc


def _rescored(path: Path, folder: Path, data_dir: Path | None) -> Rescored:
    recorded, about = directory.read_result(folder), directory.read_manifest(folder)
    suite = registry.find(recorded.suite)
    if suite.version != recorded.suite_version:
        raise BenchmarkError(
            f"{path}: scored by {suite.name} {recorded.suite_version} (biasgate {recorded.provenance.biasgate}), here "
            f"is {suite.version}: score it with that version"
        )
    plan, note = _plan(path, folder, suite, recorded, about, data_dir)
    replies = _read(plan, folder, about.options.samples)
    if note is None:  # the items were made here: some may follow from the replies
        plan = extend_plan(plan, replies)
        replies = _read(plan, folder, about.options.samples)
        note = "items: made again from the data here"
    rescored = score(plan, replies, recorded.provenance, precision=recorded.precision)
    notes = []
    if recorded.provenance.embedder is not None:
        notes.append(f"distances: as recorded, by {recorded.provenance.embedder}")
    if suite.needs_judge:
        notes.append("judgements: as recorded, parsed again; no judge was asked")
    return _compared(recorded, rescored, suite, [note, *notes])


def _plan(
    path: Path, folder: Path, suite: Suite, recorded: Result, about: directory.Manifest, data_dir: Path | None
) -> tuple[Plan, str | None]:
    try:
        is_asked_otherwise = about.options.evaluate or recorded.provenance.imported is not None
        prepared = None if is_asked_otherwise else prepare(about.options, data_dir)
    except DatasetError:
        prepared = None
    if prepared is not None and prepared.prompt_sha256 != about.prompt_sha256:
        raise BenchmarkError(f"{path}: the items of {suite.name} made here are not those of the run (other prompts)")
    if not (folder / building.ITEMS).exists():
        if prepared is None:
            raise BenchmarkError(f"{path}: has no items, and the data of {suite.name} is not here: fetch it first")
        return prepared, None
    items = [
        msgspec.structs.replace(item, meta={name: _tuples(value) for name, value in item.meta.items()})
        for item in directory.observations(folder).items
    ]
    asked_by = recorded.provenance.asked_by
    absent = f"the data of {suite.name} is not here to compare them with"
    note = f"items: the bundle's own; {f'with the prompts of {asked_by}' if asked_by else absent}"
    if prepared is not None:
        ours = {item.item_id: item for item in prepared.items}
        for item in items:
            if item.item_id in ours and prompt_sha256(ours[item.item_id]) != prompt_sha256(item):
                raise BenchmarkError(f'{path}: the prompt of item "{item.item_id}" is not that of the data here')
        n_same = sum(item.item_id in ours for item in items)
        further = f"; {len(items) - n_same} follow from the replies" if n_same < len(items) else ""
        note = f"items: {n_same} are those that the data here give{further}"
        items = [ours.get(item.item_id, item) for item in items]
    names = ("name", "kind", "sha256", "n_canonical", "left_out")
    dataset = Dataset(records=None, **{name: getattr(recorded.dataset, name) for name in names})
    sha256 = prompts_sha256(items)
    return Plan(options=about.options, suite=suite, dataset=dataset, items=items, prompt_sha256=sha256), note


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _read(plan: Plan, folder: Path, samples: int) -> dict[Key, Reply]:
    """Reads every reply again: status and value from its text, judgement or probabilities."""
    items_by_id = {item.item_id: item for item in plan.items}
    latest: dict[Key, Reply] = {}
    recorded = directory.read_recorded(folder / building.RESPONSES)
    if samples > max(1, len(recorded)):
        raise BenchmarkError(f"run.json says {samples} samples, and there are {len(recorded)} replies in all")
    for reply in recorded:
        if 0 <= reply.sample < samples and reply.item_id in items_by_id:
            latest[reply.item_id, reply.sample] = reply
    return {key: _reading(plan, items_by_id[key[0]], reply) for key, reply in latest.items()}


def _reading(plan: Plan, item: Item, reply: Reply) -> Reply:
    fresh = read_reply(plan, item, reply)
    is_measured = plan.suite.to_embed([Observation(item, fresh)])
    return reply if is_measured else fresh


def _compared(recorded: Result, rescored: Result, suite: Suite, notes: list[str]) -> Rescored:
    joint = suite.joint_score
    before, now = ({key_of(estimate): estimate for estimate in of.estimates} for of in (recorded, rescored))
    if joint is not None and any(key[0] == joint.metric for key in before):
        notes.append(f"{joint.metric}: needs a run of {joint.partner} as well and was not computed")
        before, now = (
            {key: estimate for key, estimate in of.items() if key[0] != joint.metric} for of in (before, now)
        )
    differences = [f"replies: {recorded.counts} in result.json, {rescored.counts} now"] * (
        recorded.counts != rescored.counts
    )
    n_same = 0
    for key in [*before, *(key for key in now if key not in before)]:
        words = ".".join(part for part in key if part is not None)
        old, other = before.get(key), now.get(key)
        if old is None or other is None:
            differences.append(f"{words}: {'only formed now' if old is None else 'in result.json, and not formed now'}")
        elif not _alike(old, other):
            differences.append(f"{words}: {_format_estimate(old)} in result.json, {_format_estimate(other)} now")
        else:
            n_same += 1
    return Rescored(result=rescored, n_same=n_same, differences=differences, notes=notes)


def _alike(estimate: Estimate, other: Estimate) -> bool:
    numbers = ((estimate.value, other.value), (estimate.lower, other.lower), (estimate.upper, other.upper))
    rest = all(getattr(estimate, name) == getattr(other, name) for name in ("n", "n_excluded", "method", "reason"))
    return rest and all(_close(*pair) for pair in numbers)


def _close(first: float | None, other: float | None) -> bool:
    if first is None or other is None:
        return first is other
    return math.isclose(first, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _format_estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"undefined ({estimate.reason})"
    return (
        f"{estimate.value!r} ({estimate.lower!r} to {estimate.upper!r}, n {estimate.n}, {estimate.n_excluded} left out)"
    )
