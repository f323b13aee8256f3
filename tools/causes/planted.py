"""A simulated service whose judge, model, traffic or application changes, watched by the real detector.

An exchange belongs to a conversation and to a system prompt; its score is one of the judge's four levels, cut from a
normal variable that adds the prompt, the conversation, the system prompt, the model and chance. A judge that moves adds
a level to some answers. Half of the conversations are sampled at half the rate.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamState
from gateway.features.causes.split import Side, Split, quiet_before, split
from gateway.features.causes.store import LEAST_ASKED, MOST_ASKED, MOST_SINCE

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
MOST_UNTIL_ALARM = 6_000
WAVERING = 0.1
"""Probability that a judge gives an answer a level less than it would otherwise, drawn at each verdict."""


class World(NamedTuple):
    """What changes, by how much: of the judge the probability of a level more, of the others standard deviations."""

    judge: float = 0.0
    model: float = 0.0
    traffic: float = 0.0
    application: float = 0.0


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

    def mean(judge: float, model: float, traffic: float, application: float) -> float:
        random = np.random.default_rng(1)
        at = exchanges(random, n, World(traffic=traffic, application=application), 0)
        scores = judged(random, answers(random, at, model), judge)
        return float((at.weight * scores).sum() / at.weight.sum())

    j, m, t, a = world
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


def played(seed: int, world: World, *, quiet: int = 1200, average_run_length: float = 10_000.0) -> Split | None:
    """Play a service whose causes set in after `quiet` audits, up to the split; None where no alarm rose."""
    random = np.random.default_rng(seed)
    settings = DriftSettings(average_run_length=average_run_length, reference_window=WINDOW)
    before = exchanges(random, quiet, World(), 0)
    after = exchanges(random, MOST_UNTIL_ALARM, world, quiet)
    at = before.and_then(after)
    is_before = np.arange(len(at.weight)) < quiet
    answered = answers(random, at, 0.0) + np.where(is_before, 0.0, world.model)
    scores = np.where(is_before, judged(random, answered, 0.0), judged(random, answered, world.judge))
    state, alarm = StreamState(), None
    for number, score in enumerate(scores):
        p = 1.0 / at.weight[number]
        state = live.update(state, float(score), float(p), settings, exchange_id=str(number), at=float(number))
        if state.alarm:
            alarm = number
            break
    if alarm is None or state.detector is None or (alarm < quiet and world != World()):
        return None
    change = int(state.detector.change_evidence.since or 0.0)
    return _split(random, world, at, answered, scores, change, alarm)


def _split(
    random: np.random.Generator,
    world: World,
    at: Exchanges,
    answered: Floats,
    scores: Floats,
    change: int,
    alarm: int,
) -> Split | None:
    """Ask again and split, as the feature does."""
    candidates = np.arange(quiet_before(scores[: alarm + 1], at.weight[: alarm + 1], change))
    last = at.of(slice(alarm + 1, alarm + 1 + MOST_SINCE))
    if len(candidates) < LEAST_ASKED or len(last.weight) < LEAST_ASKED:
        return None
    chosen = random.permutation(candidates)[:MOST_ASKED]
    again = at.of(chosen)
    is_crossed = world.application != 0.0
    columns = [
        scores[chosen],
        judged(random, answered[chosen], world.judge),
        judged(random, answers(random, again, world.model), world.judge),
        np.full(len(chosen), np.nan),
    ]
    since = [scores[alarm + 1 : alarm + 1 + MOST_SINCE], np.full(len(last.weight), np.nan)]
    if is_crossed:
        columns[3] = judged(random, answers(random, again, world.model, last.conditions[:1]), world.judge)
        since[1] = judged(random, answers(random, last, world.model, again.conditions[:1]), world.judge)
    return split(_side(again, columns), _side(last, since))


def _side(at: Exchanges, columns: list[Floats]) -> Side:
    return Side(
        [str(name) for name in at.conversation], [str(x) for x in at.conditions], at.weight, np.stack(columns, 1)
    )
