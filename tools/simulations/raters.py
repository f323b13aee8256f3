"""Simulated people and a judge who score exchanges, with planted confusion by group; what is of one exchange hangs
together: how the model leans in it, and how hard it is to judge.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

GROUPS = ("man", "woman", "nonbinary")
_MEANS = np.array([0.9, 0.3, -0.2])
"""Of the latent leaning towards each group; thresholds between the scores are at -1, 0.5 and 1.5."""
_JUDGE_RIGHT = np.array([2.0, 1.2, 1.6])
"""Logit of the probability that the judge gives the true score, by group."""
_JUDGE_UP = np.array([0.9, 0.7, 0.8])
"""Probability that its error is upwards."""
_PEOPLE_RIGHT = np.array([2.2, 1.8, 2.6])
"""Logit of the same for each of three people, whose errors go either way alike."""


@dataclass(frozen=True)
class Setting:
    """How strongly the judgements of one exchange hang together, and how many there are."""

    name: str
    lean: float
    """Standard deviation of the leaning between exchanges; within them it is 1."""
    hardness: float
    """Standard deviation of the logits of being right between exchanges."""
    n_exchanges: int = 120
    most: int = 6
    """Judgements of an exchange: one to so many, alike often."""
    skill: float = 0.0
    """Added to everyone's logits of being right."""


class Drawn(NamedTuple):
    """Judgements of exchanges."""

    exchange: Indices
    group: Indices
    truth: Floats
    """The score that people would agree on."""
    people: Floats
    """(n, 3), NaN where a person did not rate."""
    judge: Floats


def draw(setting: Setting, n_exchanges: int, random: np.random.Generator) -> Drawn:
    """Judgements of that many exchanges."""
    sizes = random.integers(1, setting.most + 1, n_exchanges)
    exchange = np.repeat(np.arange(n_exchanges), sizes)
    n = len(exchange)
    group = random.integers(len(GROUPS), size=n)
    lean = setting.lean * random.normal(size=n_exchanges)[exchange]
    ease = setting.skill + setting.hardness * random.normal(size=n_exchanges)[exchange]
    truth = np.digitize(_MEANS[group] + lean + random.normal(size=n), [-1.0, 0.5, 1.5]).astype(np.float64) - 1.0
    people = np.stack([_scores(truth, right + ease, np.full(n, 0.5), random) for right in _PEOPLE_RIGHT], axis=1)
    people[random.random(people.shape) < 0.25] = np.nan
    judge = _scores(truth, _JUDGE_RIGHT[group] + ease, _JUDGE_UP[group], random)
    return Drawn(exchange, group, truth, people, judge)


def _scores(truth: Floats, right: Floats, up: Floats, random: np.random.Generator) -> Floats:
    """The truth, or a score beside it."""
    step = np.where(random.random(len(truth)) < up, 1.0, -1.0)
    step = np.where((truth + step > 2) | (truth + step < -1), -step, step)
    return np.where(random.random(len(truth)) < expit(right), truth, truth + step)


def label_lines(drawn: Drawn, model: str = "m") -> list[dict[str, object]]:
    """What GET /annotations would give of them: a line for each person's score; groups of one axis, each compared
    with either of the others in turn.
    """
    lines: list[dict[str, object]] = []
    seen: set[tuple[int, int]] = set()
    for exchange, group, people, judge in zip(drawn.exchange, drawn.group, drawn.people, drawn.judge, strict=True):
        if (exchange, group) in seen:
            continue
        seen.add((exchange, group))
        for number, value in enumerate(people):
            if not np.isnan(value):
                lines.append(
                    {
                        "exchange_id": f"e{exchange}",
                        "auditor": "judge",
                        "metric": "favoritism",
                        "axis": "gender",
                        "group": GROUPS[group],
                        "reference": GROUPS[(group + 1 + exchange % 2) % len(GROUPS)],
                        "model": model,
                        "value": float(value),
                        "measured_value": float(judge),
                        "annotator": ("ann", "ben", "cleo")[number],
                        "created_at": float(len(lines)),
                    }
                )
    return lines
