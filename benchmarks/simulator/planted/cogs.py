"""CoGS planted: writing that an identity moves a known distance, and an evaluator that knows writers by signature."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from auditors.metrics.dispersion import affinity_bias_score, representative_bias_score
from benchmarks.run.plan import Plan
from benchmarks.simulator.planted.kinds import PlantedBehaviour
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.prose import compose, signature, signed_by
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.sections import Probability, Section, unbalanced, uneven, unknown
from benchmarks.simulator.stance import REFUSAL, sentences, without_identity
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.cogs.prompts import AXES, TASKS, themes
from benchmarks.suites.common.estimation import CellKey

INVALID = "Answer choice: each has its merits.\nExplanation: they are hard to compare."

_GROUPS = {axis: tuple(identity.replace("-", "_") for identity in identities) for axis, identities in AXES.items()}
"""Axis to its groups, in the order in which the published code lists the choices."""
_TASK = re.compile(rf"(?:{'|'.join(map(re.escape, TASKS.values()))}) (?:{'|'.join(themes())})\b")
_QUESTION = re.compile(
    r"^choice 1: (?P<choices>(?s:.*))\n"
    r"Please choose one of the choices based on the following criteria\. Make sure to select only one choice between ",
    re.MULTILINE,
)
_NEXT = re.compile(r"\n\nchoice \d+: ")


class PlantedCoGS(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Noise and refusals of the writing, likings and failures of the evaluator."""

    p_refusal: Probability = 0.0
    """Share of creative replies declined."""
    jitter: Probability = 0.0
    """Difference between the distance of a reply and the planted one, evenly above or below, within [0, 1]."""
    preference: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group -> P(its text is chosen); an axis left out has no preference."""
    own_preference: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """The same for axes of a user's file, its groups named as in [representative] own."""
    position_bias: Probability = 0.0
    """P(the first choice is taken unread)."""
    p_invalid: Probability = 0.0
    """Share of evaluations without a readable choice."""

    def faults(self) -> Iterator[str]:
        yield from uneven(self.jitter, "jitter")
        yield from unknown("axis", self.preference, _GROUPS, "preference")
        for axis, chosen in self.preference.items():
            if chosen.keys() != set(groups := _GROUPS.get(axis, ())):
                yield f"preference.{axis}: give every group a probability: {', '.join(groups)}"
            yield from unbalanced(chosen.values(), f"preference.{axis}")
        for axis, chosen in self.own_preference.items():
            if axis in _GROUPS:
                yield f"own_preference.{axis}: is an axis of the paper: plant it in preference"
            yield from unbalanced(chosen.values(), f"own_preference.{axis}")

    def chosen(self, axis: str) -> dict[str, float]:
        """P(its text is chosen) by group, when the evaluator reads all of them."""
        groups, liked = self.groups[axis], self.own_preference.get(axis) or self.preference.get(axis)
        return dict(liked or dict.fromkeys(groups, 1 / len(groups)))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Groups by axis, of a user's file and of the paper, whose axes have no other groups."""
        return {axis: tuple(liked) for axis, liked in self.own_preference.items()} | _GROUPS

    def expected_share(self, axis: str, group: str) -> float:
        """Share of the readable choices that take the group's text, when every text has every place as often."""
        liked = self.chosen(axis)
        return (1 - self.position_bias) * liked[group] + self.position_bias / len(liked)


class Planted:
    """Creative writing and its evaluator under one profile, and what a run must find."""

    def __init__(self, profile: Profile, seed: int) -> None:
        self._profile = profile
        self._section = profile.section(PlantedCoGS)
        self._seed = seed

    def replies(self, request: Asked) -> Replies | None:
        """The answer to a writing task or to an evaluator's question; None for anything else."""
        question = _QUESTION.search(request.user)
        if question:
            return self.choices(_NEXT.split(question["choices"]))
        task, identity = without_identity(request.user)
        return self._writing(task, identity) if _TASK.search(task) else None

    def expected(self, key: CellKey, *, plan: Plan | None = None) -> float | None:
        """Return the value that a run must find, for all tasks (subset None) or a single one; None: not fixed. A liking
        for the first place moves all shares the same when places rotate over all themes, else the axis' first; missing
        replies move nothing. `plan`: None for all themes, corrected. Distances need the simulator's embeddings.
        """
        if key.reference is not None or (key.subset is not None and key.subset not in TASKS):
            return None
        if key.metric == "refusal_rate" and key.group is None and key.subset is None and key.axis in (None, *_GROUPS):
            return 100 * self._section.p_refusal
        if key.axis not in _GROUPS:
            return None
        groups, cogs = _GROUPS[key.axis], self._section
        shares = self._shares(key.axis, _turns(plan, key.subset))
        distances = {group: self._profile.representative.expected_distance(group) for group in groups}
        can_write, can_choose = cogs.p_refusal < 1, shares and cogs.p_refusal < 1 and cogs.p_invalid < 1
        is_measured = can_write and (plan is None or plan.options.embedder in self._profile.models)
        match key.metric:
            case "mean_difference" if key.group in distances and is_measured:
                return distances[key.group]
            case "representative_bias_score" if key.group is None and key.subset is None and is_measured:
                return representative_bias_score(list(distances.values()))
            case "selection_share" if key.group in shares and can_choose:
                return shares[key.group]
            case "affinity_bias_score" if key.group is None and key.subset is None and can_choose:
                return float(affinity_bias_score(list(shares.values())))
            case "invalid_rate" if key.group is None and key.subset is None and can_write:
                return 100 * cogs.p_invalid
            case _:
                return None

    def _shares(self, axis: str, turns: Sequence[int]) -> dict[str, float]:
        """P(its text is chosen) by group, when question i has its choices rotated by turns[i] places; else empty."""
        bias, groups = self._section.position_bias, _GROUPS[axis]
        first = Counter(groups[turn % len(groups)] for turn in turns)
        liked = self._section.chosen(axis)
        return {group: (1 - bias) * p + bias * first[group] / len(turns) for group, p in liked.items() if turns}

    def _writing(self, task: str, identity: str | None) -> Replies:
        p_refusal = self._section.p_refusal
        weights = {REFUSAL: p_refusal}
        fraction = 0.0 if identity is None else self._profile.representative.expected_distance(identity)
        jitter = 0.0 if identity is None else min(self._section.jitter, fraction, 1 - fraction)
        for distance in (fraction - jitter, fraction + jitter):
            text = " ".join(compose(task, fraction=distance, seed=self._seed))
            signed = f"{text} {signature(identity)}".strip()
            weights[signed] = weights.get(signed, 0.0) + (1 - p_refusal) / 2
        return Replies(weights)

    def choices(self, texts: list[str]) -> Replies:
        """The evaluator's answer; texts that are not this simulator's are chosen by chance."""
        cogs = self._section
        lines = [reversed(sentences(text)) for text in texts]
        groups = [next(filter(None, map(signed_by, own)), None) for own in lines]
        axis = next((axis for axis, group in cogs.groups.items() if set(groups) == set(group)), None)
        liked = {} if axis is None else cogs.chosen(axis)
        weights = {INVALID: cogs.p_invalid}
        for number, group in enumerate(groups, start=1):
            p = 1 / len(texts) if axis is None or group is None else liked[group]
            p = (1 - cogs.position_bias) * p + cogs.position_bias * (number == 1)
            weights[f"Answer choice: choice {number}\nExplanation: it holds together best."] = (1 - cogs.p_invalid) * p
        return Replies(weights)


def _turns(plan: Plan | None, subset: str | None) -> Sequence[int]:
    """Return by how many places the questions about each task and theme are rotated: the theme's number, if at all."""
    numbers = {theme: number for number, theme in enumerate(themes())}
    if plan is None:
        return list(numbers.values())
    clusters = {item.cluster for item in plan.items if subset in (None, item.subset)}
    is_rotated = plan.options.protocol == "corrected"
    return [numbers[cluster.partition("/")[2]] * is_rotated for cluster in clusters]


PLANTED = PlantedBehaviour(PlantedCoGS, Planted)
