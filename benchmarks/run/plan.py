"""A run's plan, checked and rendered, pure: whole sets spread over the data; a larger limit contains a smaller one."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import msgspec

from auditors.text.thinking import parse_thinking
from benchmarks.errors import BenchmarkError
from benchmarks.run.thinking import demand_fields
from benchmarks.suites import registry
from benchmarks.suites.common import mitigation
from benchmarks.suites.common.mitigation import Mitigation
from benchmarks.suites.common.observations import never
from benchmarks.suites.protocol import DataKind, Dataset, Item, Mode, Observation, ProtocolName, Suite


class _Set(msgspec.Struct, frozen=True):
    """Items that belong together (Item.set_id), or an item that stands alone."""

    items: list[Item]
    rank: bytes
    """Random by seed and set, the same in every run."""

    @property
    def axis(self) -> str:
        return self.items[0].axis

    @property
    def part(self) -> str:
        """Return the kind of set of its axis this is: the subsets it has."""
        return "/".join(sorted({item.subset or "" for item in self.items}))


def select(items: Sequence[Item], limit: int | None, seed: int) -> list[Item]:
    """Return at most `limit` items in their own order; None: all. Whole sets, in an order fixed by the seed: one of
    every axis, within it of every subset, before a second of any; then each gets its share. The first set that does not
    fit ends it, so a larger limit contains every smaller one. Raises BenchmarkError when not even the first fits.
    """
    if limit is None or limit >= len(items):
        return list(items)
    ordered = _ordered(items, seed)
    chosen = _beginning(ordered, limit)
    if not chosen:
        n_first = len(ordered[0].items)
        raise BenchmarkError(
            f"limit {limit} is too small: the first {n_first} items belong together: use a limit of {n_first} or more"
        )
    return [item for item in items if item.item_id in chosen]


def beginnings(items: Sequence[Item], limits: Sequence[int], seed: int) -> list[list[Item]]:
    """Return what `select` chooses under each limit, sorting just once, without limits that no set fits under."""
    ordered = _ordered(items, seed)
    place = {item.item_id: number for number, item in enumerate(items)}
    chosen_places = (sorted(map(place.__getitem__, _beginning(ordered, limit))) for limit in limits)
    return [[items[number] for number in numbers] for numbers in chosen_places if numbers]


def at_least(items: Sequence[Item], n: int, seed: int) -> list[Item]:
    """The items of the sets that a limit takes first, as many as have `n` items or more; all where there are fewer."""
    chosen = set[str]()
    for item_set in _ordered(items, seed):
        if len(chosen) >= n:
            break
        chosen.update(item.item_id for item in item_set.items)
    return [item for item in items if item.item_id in chosen]


def _beginning(ordered: Sequence[_Set], limit: int) -> set[str]:
    """Return the ids of the items of the sets, up to the first set that no longer fits."""
    n_left, chosen = limit, set[str]()
    for item_set in ordered:
        if len(item_set.items) > n_left:
            break
        n_left -= len(item_set.items)
        chosen.update(item.item_id for item in item_set.items)
    return chosen


def _ordered(items: Sequence[Item], seed: int) -> list[_Set]:
    together: dict[str, list[Item]] = {}
    for item in items:
        # A set and an item that stands alone may have the same name.
        together.setdefault(f"item/{item.item_id}" if item.set_id is None else f"set/{item.set_id}", []).append(item)
    ranked = sorted(
        (_Set(part, hashlib.sha256(f"{seed}/{name}".encode()).digest()) for name, part in together.items()),
        key=attrgetter("rank"),
    )
    return _spread(_spread(parts) for parts in (_by("part", own) for own in _by("axis", ranked)))


def _spread(parts: Iterable[Sequence[_Set]]) -> list[_Set]:
    """One order of several, of which every beginning has its share of each, and one of each before a second of any."""
    placed = [(place / len(part), item_set.rank, item_set) for part in parts for place, item_set in enumerate(part)]
    return [item_set for _, _, item_set in sorted(placed, key=itemgetter(0, 1))]


def _by(name: str, sets: Iterable[_Set]) -> list[list[_Set]]:
    parts: dict[str, list[_Set]] = {}
    for group in sets:
        parts.setdefault(getattr(group, name), []).append(group)
    return list(parts.values())


Key = tuple[str, int]
"""(item_id, sample): what a reply answers."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a run. All but `concurrency` and `keep_reasoning` identify it: resume refuses another."""

    suite: str
    model: str
    mode: Mode = "sample"
    protocol: ProtocolName = "corrected"
    data: DataKind = "canonical"
    limit: int | None = None
    """Most items, in whole sets over the data, few-shot examples not counted; asked up to limit * samples times."""
    seed: int = 0
    samples: int = 1
    mitigation: str = mitigation.NONE
    """See `benchmarks.suites.common.mitigation.Mitigation.name`."""
    mitigation_text: str | None = None
    """The text of a user's own mitigation, whose name has only its hash."""
    few_shot: int = 0
    subset: str | None = None
    """Ask only this part of the data, e.g. "intrasentence", or "eval" of ltf_test."""
    axes: tuple[str, ...] | None = None
    """Ask only these axes of the suite; None: all."""
    temperature: float | None = None
    """Temperature used in place of the protocol's."""
    judge_model: str | None = None
    """Judge for suites that need one; None: the model under test judges itself."""
    embedder: str | None = None
    """Embedder for suites that compare texts; None: those numbers are undefined, with that reason."""
    precision: float | None = None
    """Stop at half the headline interval's width at most this share of its scale's largest value; None: ask all."""
    repeat_share: float | None = None
    """Share of the items that are asked once more, to see what changes by itself (benchmarks.run.asked_again)."""
    prompts: str | None = None
    """Text of a file of the user's own prompts, or axes and tasks, for the suites that ask these."""
    evaluate: tuple[str, ...] = ()
    """cogs: directories of finished runs whose texts are evaluated, in place of generating any."""
    thinking: str = "default"
    """Setting of the model's thinking: see `auditors.text.thinking.parse_thinking`."""
    extra_body: dict[str, Any] | None = None
    """Further fields of every request to the model; they win over the run's own."""
    keep_reasoning: bool = False
    """Keep the model's thoughts in the log; they move no number."""
    concurrency: int | None = None
    """Requests in flight; None is automatic."""

    @property
    def mitigating(self) -> Mitigation:
        return Mitigation(self.mitigation, self.mitigation_text)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A run ready to be asked."""

    options: RunOptions
    suite: Suite
    dataset: Dataset
    items: list[Item]
    prompt_sha256: str

    @property
    def total(self) -> int:
        return len(self.items) * self.options.samples

    @property
    def judge_model(self) -> str | None:
        """Return the model that reads the replies; None for a suite without a judge."""
        return (self.options.judge_model or self.options.model) if self.suite.needs_judge else None


def prepare(
    options: RunOptions,
    data_dir: Path | None = None,
    *,
    outputs: Mapping[str, Sequence[Observation]] | None = None,
    checkpoint: Callable[[], None] = never,
) -> Plan:
    """Checks options, renders items. `outputs`: of `options.evaluate`, by model. BenchmarkError, DatasetError."""
    suite = registry.find(options.suite)
    check(options, suite)
    if options.prompts is not None and suite.takes_prompts:
        dataset = suite.dataset_of(options.prompts, checkpoint, partial(suite.load, options.data, data_dir))
    else:
        dataset = suite.load(options.data, data_dir)
    checkpoint()
    all_items = rendered(options, suite, dataset, checkpoint) if outputs is None else _about(outputs, options, suite)
    checkpoint()
    items = select(_of_axes(_of_subset(all_items, options), options), options.limit, options.seed)
    return Plan(options=options, suite=suite, dataset=dataset, items=items, prompt_sha256=prompts_sha256(items))


def check(options: RunOptions, suite: Suite) -> None:
    """Raises BenchmarkError, one line, for the first option that cannot be honoured."""
    if options.mode not in suite.modes:
        raise BenchmarkError(f'{suite.name}: mode "{options.mode}" is not offered; offered: {", ".join(suite.modes)}')
    if options.protocol not in suite.protocols:
        offered = ", ".join(suite.protocols)
        raise BenchmarkError(f'{suite.name}: protocol "{options.protocol}" is not offered; offered: {offered}')
    _check_own(options, suite)
    mitigation.demand_known(options.mitigating)
    if options.few_shot not in suite.few_shots:
        offered = ", ".join(map(str, suite.few_shots))
        raise BenchmarkError(f"{suite.name}: few-shot {options.few_shot} is not offered; offered: {offered}")
    for axis in options.axes or ():
        if axis not in suite.axes and (options.prompts is None or suite.needs_prompts):
            raise BenchmarkError(f'{suite.name}: axis "{axis}" is not offered; offered: {", ".join(suite.axes)}')
    for name, number in (("limit", options.limit), ("samples", options.samples), ("concurrency", options.concurrency)):
        if number is not None and number < 1:
            raise BenchmarkError(f"{name} must be at least 1, not {number}")
    if options.temperature is not None and not 0 <= options.temperature <= 2:
        raise BenchmarkError(f"temperature must be from 0 to 2, not {options.temperature:g}")
    if options.mode == "exact" and options.samples != 1:
        raise BenchmarkError(f"mode exact reads probabilities, not replies: samples must be 1, not {options.samples}")
    if options.temperature is not None and options.mode == "exact":
        raise BenchmarkError("mode exact reads the probabilities at the protocol's own temperature: leave it out")
    try:
        thinking = parse_thinking(options.thinking)
    except ValueError as exc:
        raise BenchmarkError(str(exc)) from None
    demand_fields(options.extra_body)
    if options.mode == "exact" and thinking.mode in ("on", "budget"):
        raise BenchmarkError(
            "mode exact reads the first words of an answer, before which a model must not think: use --thinking off"
        )
    _check_precision(options.precision, suite)
    _check_repeats(options.repeat_share, suite)
    if options.seed < 0:
        raise BenchmarkError(f"seed must not be negative, not {options.seed}")


def _check_own(options: RunOptions, suite: Suite) -> None:
    """Raises BenchmarkError for prompts that nothing asks, and for what their numbers cannot be formed with."""
    if options.prompts is not None and not suite.takes_prompts:
        raise BenchmarkError(f"{suite.name}: has its own questions: leave the prompts out")
    if not suite.needs_prompts:
        return
    if options.prompts is None:
        raise BenchmarkError(f"{suite.name}: its questions are yours: biasgate audit prompts FILE.jsonl")
    if options.samples < suite.least_samples:
        raise BenchmarkError(
            f"{suite.name}: samples must be at least {suite.least_samples}, not {options.samples}: asking the same "
            "prompt again is the control"
        )
    for name, value in (("precision", options.precision), ("repeat share", options.repeat_share)):
        if value is not None:
            raise BenchmarkError(f"{suite.name}: {name} is not offered: use a limit, and more samples")


def _check_precision(demanded: float | None, suite: Suite) -> None:
    if demanded is None:
        return
    if not 0 < demanded < 1:
        raise BenchmarkError(f"precision must be above 0 and below 1, e.g. 0.02 for ±2 of 100, not {demanded:g}")
    if suite.has_follow_up:
        raise BenchmarkError(
            f"{suite.name}: precision is not offered: its questions are made from its replies once all are there: "
            "use a limit"
        )


def _check_repeats(share: float | None, suite: Suite) -> None:
    if share is None:
        return
    if not 0 < share <= 1:
        raise BenchmarkError(f"repeat share must be above 0 and at most 1, not {share:g}")
    if suite.has_follow_up:
        raise BenchmarkError(
            f"{suite.name}: repeat share is not offered: its questions are made from its replies, which change: "
            "run it twice and use audit compare"
        )


def rendered(options: RunOptions, suite: Suite, dataset: Dataset, checkpoint: Callable[[], None] = never) -> list[Item]:
    """Every item as it is asked: after examples, if any, and with the mitigation in its place."""
    protocol, seed, added = options.protocol, options.seed, options.mitigating
    if options.few_shot:
        items = suite.items_after_examples(dataset, protocol=protocol, seed=seed, few_shot=options.few_shot)
        return _checked(mitigation.placed(items, added), checkpoint)
    if added.name != mitigation.NONE:
        own = suite.items_with_mitigation(dataset, protocol=protocol, seed=seed, name=added.name, text=added.text)
        if own is not None:
            return _checked(own, checkpoint)
    items = suite.items(dataset, protocol=protocol, seed=seed)
    return _checked(mitigation.placed(items, added), checkpoint)


def _checked(items: Iterable[Item], checkpoint: Callable[[], None]) -> list[Item]:
    checked = []
    for item in items:
        checkpoint()
        checked.append(item)
    return checked


def _about(outputs: Mapping[str, Sequence[Observation]], options: RunOptions, suite: Suite) -> list[Item]:
    items = suite.items_about(outputs, protocol=options.protocol)
    if items is None:
        raise BenchmarkError(f"{suite.name}: has no texts to evaluate: omit --evaluate")
    return list(mitigation.placed(items, options.mitigating))


def _of_subset(items: list[Item], options: RunOptions) -> list[Item]:
    if options.subset is None:
        return items
    chosen = [item for item in items if item.subset == options.subset]
    if not chosen:
        subsets = ", ".join(sorted({item.subset for item in items if item.subset is not None})) or "none"
        raise BenchmarkError(f'{options.suite}: subset "{options.subset}" has no item; subsets: {subsets}')
    return chosen


def _of_axes(items: list[Item], options: RunOptions) -> list[Item]:
    if options.axes is None:
        return items
    chosen = [item for item in items if item.axis in options.axes]
    if not chosen:
        raise BenchmarkError(f"{options.suite}: no item is of axes {', '.join(options.axes)}: choose others")
    return chosen


def prompts_sha256(items: Sequence[Item]) -> str:
    return hashlib.sha256("".join(map(prompt_sha256, items)).encode()).hexdigest()


def prompt_sha256(item: Item) -> str:
    """Return the sha256 of the id and messages of a single item as JSON."""
    return hashlib.sha256(msgspec.json.encode([item.item_id, item.messages])).hexdigest()
