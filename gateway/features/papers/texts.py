"""Draws texts of runs side by side, as the papers quote them: an example each, picked by a rule, and no estimate."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.figures.figure import Figure, Part, Picture
from benchmarks.figures.svg import NARROW, canvas, in_both_widths, kind_of, markup, text, wrapped
from benchmarks.suites.common.observations import parts, where
from benchmarks.suites.protocol import Observation

Observed = Mapping[str, Sequence[Observation]]
"""Replies of a run, by the name of its model or of the person who chose."""
GAP, LINE, SIZE, MOST_LINES = 24.0, 16.0, 11.0, 22


class Text(NamedTuple):
    heading: str
    words: str


def draw_texts(label: str, texts: Sequence[Text], width: float) -> str:
    """Return the texts in columns, below one another on a narrow page; a long one is cut with an ellipsis."""
    n_columns = len(texts) if width > NARROW else 1
    column = (width - GAP * (n_columns - 1)) / n_columns
    lines = [
        [("strong", line) for line in wrapped(each.heading, column, SIZE)]
        + [("soft", line) for line in wrapped(each.words, column, SIZE, MOST_LINES)]
        for each in texts
    ]
    tops = [0] * len(texts) if n_columns > 1 else [sum(len(each) + 1 for each in lines[:n]) for n in range(len(texts))]
    height = LINE * (max(top + len(each) for top, each in zip(tops, lines, strict=True)) + 1)
    picture = canvas(width, height, label, kind=kind_of(width))
    for place, (top, each) in enumerate(zip(tops, lines, strict=True)):
        for at, (kind, line) in enumerate(each, top + 1):
            text(picture, (place % n_columns) * (column + GAP), at * LINE, line, size=SIZE, class_=kind)
    return markup(picture)


def _figure(title: str, reading: str, examples: Iterable[tuple[str, list[Text]]]) -> list[Figure]:
    drawn = ((name, in_both_widths(partial(draw_texts, name, texts))) for name, texts in examples)
    pictures = tuple(Picture(title=name, reading="", svg=svg) for name, svg in drawn)
    return [Figure(title=title, reading=reading, parts=(Part(pictures=pictures),))] if pictures else []


def pairs(title: str, observed: Observed) -> list[Figure]:
    """Return both answers of the pair whose scores differ most, of each model; a refused answer scores 0."""
    examples = []
    for model, observations in observed.items():
        couples = [each for each in parts(observations, lambda item: item.set_id).values() if len(each) == 2]
        couple = max(couples, key=_distance, default=())
        examples += [(model, [Text(_asked(each), each.reply.text or "") for each in couple])] if couple else []
    reading = "Of all pairs of swapped questions the one whose two answers score furthest apart, picked for that alone."
    return _figure(title, reading, examples)


def _distance(couple: Sequence[Observation]) -> tuple[float, int]:
    """Return the distance of two scores, and how many of the answers are refused."""
    scores = [float(each.reply.parsed) for each in couple if each.reply.status == "ok"]
    n_refused = len(couple) - len(scores)
    return max([*scores, *n_refused * [0.0]]) - min([*scores, *n_refused * [0.0]]), n_refused


def _asked(observation: Observation) -> str:
    reply, (first, *_) = observation.reply, observation.item.messages[-1].content.strip().splitlines()
    return f"{first} [{'refused' if reply.status == 'refusal' else f'score {reply.parsed}'}]"


def chosen(title: str, observed: Observed, writers: Mapping[str, str]) -> list[Figure]:
    """Return of each axis the first texts of which all who chose took one, and the first on which they differ."""
    by_item: dict[str, dict[str, Observation]] = {}
    for name, observations in observed.items():
        for each in (each for each in observations if each.item.choices and each.reply.status == "ok"):
            by_item.setdefault(each.item.item_id, {})[name] = each
    examples: dict[tuple[str, bool], tuple[str, list[Text]]] = {}
    for took in (took for took in by_item.values() if len(took) == len(observed)):
        item, is_shared = next(iter(took.values())).item, len({each.reply.parsed for each in took.values()}) == 1
        by = {role: [name for name, each in took.items() if each.reply.parsed == role] for role in item.groups}
        texts = [Text(f"{c.role} [chosen by {', '.join(by[c.role]) or 'none'}]", c.text) for c in item.choices]
        writer, sameness = str(item.meta["generator"]), "the same choice" if is_shared else "different choices"
        about = f"{item.cluster}, by {writers.get(writer, writer)}: {sameness}"
        examples.setdefault((item.axis, is_shared), (about, texts))
    return _figure(
        title, "The first texts of each axis on which all agree, and the first on which not.", examples.values()
    )


def named(title: str, observed: Observed) -> list[Figure]:
    """Return of each axis the first texts that all name their identity, and the first of which none does."""
    examples: dict[tuple[str, bool], tuple[str, list[Text]]] = {}
    for model, observations in observed.items():
        written = where(observations, lambda item: bool(item.groups) and not item.choices)
        for (axis, theme), texts in parts(written, lambda item: (item.axis, item.set_id)).items():
            names = {bool((each.reply.parsed or {}).get("names_identity")) for each in texts}
            if len(names) == 1:
                about = f"{theme}, {model}: {'obvious' if True in names else 'nuanced or imperceptible'}"
                shown = [Text(each.item.groups[0], each.reply.text or "") for each in texts]
                examples.setdefault((axis, True in names), (about, shown))
    reading = (
        "A text that uses the word of its own identity is obvious. People tell nuanced from imperceptible: the form "
        "perceptibility of labelling asks them."
    )
    return _figure(title, reading, examples.values())
