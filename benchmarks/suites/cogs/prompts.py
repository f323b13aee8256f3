"""Holds the questions of CoGS: for creative texts with and without an identity, and for the best of several texts."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from auditors.text.own_identities import OwnIdentities
from benchmarks.suites.common.observations import items_of
from benchmarks.suites.protocol import Observation, ProtocolName

DEFAULT_AXIS = "default"
"""Axis of the texts without an identity, which every axis shares."""
_PRINTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
AXES: Mapping[str, tuple[str, ...]] = {axis: tuple(names) for axis, names in _PRINTED["axes"].items()}
TASKS: Mapping[str, str] = _PRINTED["tasks"]
RUBRICS: Mapping[str, Sequence[str]] = _PRINTED["rubrics"]


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    """The identities, tasks and criteria that a run asks about: the paper's, or those of a user's file."""

    axes: Mapping[str, tuple[str, ...]]
    tasks: Mapping[str, str]
    rubrics: Mapping[str, Sequence[str]]
    labels: Mapping[tuple[str, str], str] = {}
    """Words for an (axis, identity) in a prompt, where they are not the identity itself."""
    cues: Mapping[tuple[str, str], tuple[str, ...]] = {}
    """Words that name an (axis, identity), where they are not the identity itself."""

    def meta(self, task: str, axis: str, identity: str | None = None) -> dict[str, Sequence[str]]:
        """Return what an item remembers of a user's file, so that its replies are scored by it; empty of the paper."""
        if self is PAPER:
            return {}
        names: dict[str, Sequence[str]] = {CRITERIA: self.rubrics[task], IDENTITIES: self.axes.get(axis, ())}
        return names if identity is None else names | {CUES: self.cues[axis, identity]}


CRITERIA, IDENTITIES, CUES = "criteria", "identities", "cues"
"""Keys of `Item.meta` in runs about a user's file."""
PAPER = Lists(axes=AXES, tasks=TASKS, rubrics=RUBRICS)


def own_lists(own: OwnIdentities) -> Lists:
    """Return the lists of a user's file, with the paper's tasks where it has none."""
    return Lists(
        axes={axis: tuple(groups) for axis, groups in own.axes.items()},
        tasks={name: task.prompt for name, task in own.tasks.items()} or TASKS,
        rubrics={name: tuple(task.criteria) for name, task in own.tasks.items()} or RUBRICS,
        labels={(identity.axis, identity.group): identity.label for identity in own.identities},
        cues={(identity.axis, identity.group): own.cues(identity) for identity in own.identities},
    )


def lists_of(observations: Sequence[Observation]) -> Lists:
    """Return the lists of a run, as far as its scores need them: of its items, or the paper's."""
    items = items_of(observations)
    if not items or CRITERIA not in items[0].meta:
        return PAPER
    return Lists(
        axes={item.axis: tuple(item.meta[IDENTITIES]) for item in items if item.axis != DEFAULT_AXIS},
        tasks={item.subset or "": "" for item in items},
        rubrics={item.subset or "": item.meta[CRITERIA] for item in items},
    )


def themes() -> list[str]:
    """The thirty themes in the printed order."""
    return [theme for group in _PRINTED["themes"].values() for theme in group]


def item_id(task: str, theme: str, identity: str | None = None) -> str:
    """Id of the default prompt of (task, theme), or of the prompt under an identity."""
    return f"{task}/{theme}/{identity or 'default'}"


def identity_id(lists: Lists, axis: str, identity: str) -> str:
    """Identity as ids of items name it: with its axis in a user's file, where two axes may share a name."""
    return identity if lists is PAPER else f"{axis}.{identity}"


def generation_prompt(
    task: str, theme: str, identity: str | None, *, protocol: ProtocolName, tasks: Mapping[str, str] = TASKS
) -> str:
    """The default prompt, or the same after the identity sentence; `paper` keeps its missing space (X-COG-3)."""
    prompt = f"{tasks[task]} {theme}"
    if identity is None:
        return prompt
    sentence: str = _PRINTED["identity"]
    return sentence.format(identity=identity, gap="" if protocol == "paper" else " ") + prompt


def evaluation_prompt(criteria: Sequence[str], outputs: Sequence[str]) -> str:
    """The printed evaluator prompt with a task's five criteria; it names no choice that is not offered."""
    labels = [f"choice {number}" for number in range(1, len(outputs) + 1)]
    template: str = _PRINTED["evaluation"]
    return template.format(
        choices="\n\n".join(f"{label}: {text}" for label, text in zip(labels, outputs, strict=True)),
        labels=", ".join(labels),
        rubric=" ".join(f"{letter}. {name}" for letter, name in zip("abcde", criteria, strict=True)),
    )
