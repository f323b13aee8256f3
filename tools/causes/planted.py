"""A simulated service whose judge, model, traffic or application changes, watched by the real detector.

An exchange belongs to a conversation and to a system prompt; its score is one of the judge's four levels, cut from a
normal variable that adds the prompt, the conversation, the system prompt, the model and chance. A judge that moves adds
a level to some answers. Half of the conversations are sampled at half the rate. A gap's exchanges are about a group,
about others or about both, with the same prompt, conversation and conditions in both scores.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamState
from gateway.features.causes.split import MOST_CROSSED, Side, Split, gap_blocks, quiet_before, split
from gateway.features.causes.store import LEAST_ASKED, MOST_ASKED, MOST_BESIDE, MOST_SINCE

Floats = NDArray[np.float64]

CUTS = (-0.6, 0.5, 1.3)
"""Ends of the levels, in standard deviations."""
CHANCE = 0.8
PROMPT = 0.5
CONVERSATION = 0.33
"""Standard deviations of an answer's chance, of a prompt and of a conversation."""
TURNS = 2.5
"""Mean number of turns of a conversation."""
WINDOW = 400
"""Audits of the reference."""
QUIET = 1_200
QUIET_GAP = 2_400
"""Exchanges before the change, of a mean and of a gap, whose blocks take several."""
MOST_UNTIL_ALARM = 6_000
OTHERS = -0.4
"""What is added to the scores of the other groups of a gap."""
WAVERING = 0.1
"""Probability that a judge gives an answer a level less than it would otherwise, drawn at each verdict."""


class Gap(NamedTuple):
    """How a gap's exchanges lie between the group and the others."""

    share: float = 0.5
    """Share of the exchanges that are about the group."""
    paired: float = 0.25
    """Share of those that are about the others too."""
    is_mixed: bool = True
    """Conversations are about both sides; else each is about one, or all of it about both."""
    reach: float = 0.0
    """Part of each cause that moves the others' scores too."""

    def members(self, random: np.random.Generator, conversation: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Draw which exchanges are about the group and which about the others, (2, n)."""
        n = len(conversation)
        place = random.random(n) if self.is_mixed else random.random(int(conversation.max()) + 1)[conversation]
        return np.stack([place < self.share, place >= self.share * (1.0 - self.paired)])


class World(NamedTuple):
    """What changes, by how much: of the judge the probability of a level more, of the others standard deviations."""

    judge: float = 0.0
    model: float = 0.0
    traffic: float = 0.0
    application: float = 0.0
    gap: Gap | None = None
    """The series is a gap; None: a mean."""
    base: float = 0.0
    """Standard deviations that are added to all scores."""

    @property
    def has_cause(self) -> bool:
        return self != World(gap=self.gap, base=self.base)

    @property
    def means(self) -> "list[World]":
        """The world of each mean: of the series, or of a gap's group and of its others."""
        if self.gap is None:
            return [self]
        judge, model, traffic, application = (self.gap.reach * size for size in self[:4])
        return [self._replace(gap=None), World(judge, model, traffic, application, base=OTHERS)]


class Exchanges(NamedTuple):
    """n exchanges of a single time, each (n,)."""

    conversation: NDArray[np.intp]
    weight: Floats
    prompt: Floats
    """What prompt and conversation add to a score."""
    conditions: Floats
    """What the system prompt adds."""

    def and_then(self, later: "Exchanges") -> "Exchanges":
        """Return these exchanges and later ones."""
        return Exchanges(
            np.concatenate([self.conversation, later.conversation]),
            np.concatenate([self.weight, later.weight]),
            np.concatenate([self.prompt, later.prompt]),
            np.concatenate([self.conditions, later.conditions]),
        )

    def of(self, rows: slice | NDArray[np.intp]) -> "Exchanges":
        """Return the exchanges of these rows."""
        return Exchanges(self.conversation[rows], self.weight[rows], self.prompt[rows], self.conditions[rows])


def exchanges(random: np.random.Generator, n: int, world: World, first: int) -> Exchanges:
    """Draw n sampled exchanges, whole conversations after each other, with numbers from `first` on."""
    sizes = random.geometric(1.0 / TURNS, n)
    conversation = np.repeat(np.arange(n), sizes)[: 8 * n]
    halved = random.random(n) < 0.5
    sampled = np.flatnonzero(random.random(len(conversation)) < np.where(halved[conversation], 0.5, 1.0))[:n]
    chosen = conversation[sampled]
    return Exchanges(
        conversation=chosen + first,
        weight=np.where(halved[chosen], 2.0, 1.0),
        prompt=world.traffic + random.normal(0.0, PROMPT, n) + random.normal(0.0, CONVERSATION, n)[chosen],
        conditions=np.full(n, world.application),
    )


def answers(random: np.random.Generator, at: Exchanges, model: float, conditions: Floats | None = None) -> Floats:
    """Draw an answer to each, as the normal variable that its levels are cut from, (n,)."""
    added = at.conditions if conditions is None else conditions
    return at.prompt + added + model + random.normal(0.0, CHANCE, len(at.prompt))


def judged(random: np.random.Generator, answered: Floats, lenient: float) -> Floats:
    """Return the judge's scores on 0..1, (n,)."""
    levels = np.searchsorted(CUTS, answered) + (random.random(len(answered)) < lenient)
    return np.clip(levels - (random.random(len(answered)) < WAVERING), 0, 3) / 3.0


def truth(world: World, n: int = 400_000) -> Mapping[str, float]:
    """Return the planted parts: means over n exchanges of each cell, with the same randomness in all of them."""
    if world.gap is not None:
        group, rest = (truth(each, n) for each in world.means)
        return {name: value - rest[name] for name, value in group.items()}

    def mean(judge: float, model: float, traffic: float, application: float) -> float:
        random = np.random.default_rng(1)
        at = exchanges(random, n, World(traffic=traffic, application=application), 0)
        scores = judged(random, answers(random, at, model + world.base), judge)
        return float((at.weight * scores).sum() / at.weight.sum())

    j, m, t, a = world[:4]
    cells = {(x, y): mean(j, m, x, y) for x in (0.0, t) for y in (0.0, a)}
    then, again = mean(0.0, 0.0, 0.0, 0.0), mean(j, 0.0, 0.0, 0.0)
    first, last = cells[0.0, a] - cells[0.0, 0.0], cells[t, a] - cells[t, 0.0]
    application = (first + last) / 2.0
    return {
        "judge": again - then,
        "model": cells[0.0, 0.0] - again,
        "traffic": cells[t, a] - cells[0.0, 0.0] - application,
        "application": application,
    }


def played(seed: int, world: World, *, average_run_length: float = 10_000.0) -> Split | None:
    """Play a service whose causes set in after quiet audits, up to the split; None where no alarm rose."""
    random, quiet = np.random.default_rng(seed), QUIET if world.gap is None else QUIET_GAP
    settings = DriftSettings(average_run_length=average_run_length, reference_window=WINDOW)
    before = exchanges(random, quiet, World(), 0)
    after = exchanges(random, MOST_UNTIL_ALARM, world._replace(traffic=0.0, application=0.0), quiet)
    at = before.and_then(after)
    is_before = np.arange(len(at.weight)) < quiet
    is_about = np.ones((1, len(at.weight)), dtype=np.bool_)
    if world.gap is not None:
        is_about = world.gap.members(np.random.default_rng([seed, 1]), at.conversation)
    means, scores = [], []
    for each, about in zip(world.means, is_about, strict=True):
        moved = at._replace(
            prompt=at.prompt + np.where(is_before, 0.0, each.traffic),
            conditions=np.where(is_before, 0.0, each.application),
        )
        answered = answers(random, moved, each.base) + np.where(is_before, 0.0, each.model)
        verdicts = np.where(is_before, judged(random, answered, 0.0), judged(random, answered, each.judge))
        means.append(_Mean(each, moved, answered))
        scores.append(np.where(about, verdicts, np.nan))
    state, alarm = StreamState(), None
    for number, found in enumerate(np.stack(scores, 1)):
        p, name, time = 1.0 / float(at.weight[number]), str(number), float(number)
        if world.gap is None:
            state = live.update(state, float(found[0]), p, settings, exchange_id=name, at=time)
        else:
            sides = [[] if np.isnan(score) else [float(score)] for score in found]
            state = live.record_gap(state, sides[0], sides[1], p, settings, exchange_id=name, at=time)
        if state.alarm:
            alarm = number
            break
    if alarm is None or state.detector is None or (alarm < quiet and world.has_cause):
        return None
    change = int(state.detector.change_evidence.since or 0.0)
    return _split(random, means, np.stack(scores), _quiet(np.stack(scores)[:, : alarm + 1], at.weight, change), alarm)


class _Mean(NamedTuple):
    """All exchanges as a mean sees them."""

    world: World
    at: Exchanges
    answered: Floats


def _quiet(scores: Floats, weights: Floats, change: int) -> int:
    """Return how many audits surely precede the change, as the feature does."""
    weights = weights[: scores.shape[1]]
    if len(scores) == 1:
        return quiet_before(scores[0], weights, change)
    values, shares, last = gap_blocks(scores[0], scores[1], weights)
    n = quiet_before(values, shares, int((last < change).sum()))
    return int(last[n - 1]) + 1 if n else 0


def _split(random: np.random.Generator, means: list[_Mean], scores: Floats, n_quiet: int, alarm: int) -> Split | None:
    """Ask again and split, as the feature does."""
    is_about = ~np.isnan(scores)
    own, beside = (np.flatnonzero(is_in[:n_quiet]) for is_in in (is_about[0], ~is_about[0]))
    asked = [random.permutation(own)[:MOST_ASKED], random.permutation(beside)[:MOST_BESIDE]]
    factors = [
        np.full(len(some), len(all_of) / max(1, len(some))) for some, all_of in zip(asked, (own, beside), strict=True)
    ]
    chosen, factor = np.concatenate(asked), np.concatenate(factors)
    firsts = [alarm + 1 + np.flatnonzero(is_in[alarm + 1 :])[:MOST_SINCE] for is_in in is_about]
    latest = np.unique(np.concatenate(firsts))
    if min(*is_about[:, chosen].sum(axis=1), *map(len, firsts)) < LEAST_ASKED:
        return None
    before, since, drawn = [], [], np.random.default_rng(alarm).permutation(len(chosen))[: 2 * MOST_CROSSED]
    for (world, at, answered), then, first in zip(means, scores, firsts, strict=True):
        again, last = at.of(chosen), at.of(latest)
        columns = [
            then[chosen],
            judged(random, answered[chosen], world.judge),
            judged(random, answers(random, again, world.model + world.base), world.judge),
            np.full(len(chosen), np.nan),
        ]
        crossed = np.full(len(latest), np.nan)
        if means[0].world.application != 0.0:
            pairs = ((again, last.conditions[:1]), (last, again.conditions[:1]))
            level = world.model + world.base
            columns[3], crossed = (
                judged(random, answers(random, each, level, conditions), world.judge) for each, conditions in pairs
            )
        if len(means) == 2:
            columns[3][~np.isin(np.arange(len(chosen)), drawn)], crossed[2 * MOST_CROSSED :] = np.nan, np.nan
        before.append(np.where(np.isnan(then[chosen]), np.nan, columns))
        since.append(np.where(np.isin(latest, first), [then[latest], crossed], np.nan))
    at = means[0].at
    return split(_side(at.of(chosen), factor, before), _side(at.of(latest), np.ones(len(latest)), since))


def _side(at: Exchanges, factor: Floats, columns: list[Floats]) -> Side:
    names = [str(name) for name in at.conversation]
    first, *rest = (each.T for each in columns)
    return Side(names, [str(x) for x in at.conditions], at.weight * factor, first, *rest)
