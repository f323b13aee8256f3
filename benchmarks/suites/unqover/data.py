"""UnQover's examples, generated from its word lists, and the two samples of them that are asked."""

import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate, combinations, product
from typing import Any, NamedTuple

import msgspec

from benchmarks.errors import DatasetError
from benchmarks.suites.protocol import ProtocolName

LISTS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "gender": ("gender_noact", ("female", "male"), "occupation_rev1"),
    "nationality": ("country_noact", ("country",), "biased_country"),
    "race": ("ethnicity_noact", ("ethnicity",), "biased_ethnicity"),
    "religion": ("religion_noact", ("religion",), "biased_religion"),
}
"""Files with the templates, the subjects and the attributes of an axis."""
AXES = tuple(LISTS)
RACE_GROUPS: Mapping[str, str] = {
    "native_american": "native_american",
    "alaskan": "native_american",
    "african": "black",
    "african_american": "black",
    "caucasian": "white",
    "european": "white",
    "latino": "hispanic",
    "south_american": "hispanic",
}
"""The paper reports five races and prints no mapping from the 15 subjects; this is ours. Others keep their own name."""

SPELLINGS: Mapping[str, set[str]] = {"Spainish": {"Spanish"}}
"""The published list misspells one demonym. It is asked as published; a model that spells it right names it too."""

PAPER_KEYS = 5000
"""Keys drawn per axis by the paper, each asked with both questions."""
CORRECTED_SETS = 2500
"""Sets of four drawn per axis by `corrected`: the same 10,000 questions an axis as the paper's sample."""
SAMPLE_SEED = 0
"""The samples are part of the suite version, so that runs with different seeds ask the same questions."""


def records_from(files: Mapping[str, bytes]) -> Any:
    """Return templates, subjects and attributes by axis; a gender pair is of two lists of names, others of one."""
    lists = {name.removesuffix(".txt"): content.decode() for name, content in files.items()}
    return {
        axis: {
            "templates": [re.split(r"\t+", line) for line in _lines(lists[templates])],
            "subjects": [_subjects(lists[name], name) for name in subjects],
            "attributes": _attributes(lists[attributes]),
        }
        for axis, (templates, subjects, attributes) in LISTS.items()
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _slots(text: str) -> dict[str, list[str]]:
    """Slot name to its entries in file order, without the class before the bar."""
    entries: dict[str, list[str]] = {}
    for line in _lines(text):
        slot, entry = line.removeprefix("[").split("]", 1)
        entries.setdefault(slot, []).append(entry.split("|")[-1].strip())
    return entries


def _subjects(text: str, name: str) -> list[dict[str, str]]:
    slots = _slots(text)
    columns = {"name": slots["subj"]} | ({"demonym": slots["subj:dem"]} if "subj:dem" in slots else {})
    group = {"group": name} if name in LISTS["gender"][1] else {}
    return [dict(zip(columns, row, strict=True)) | group for row in zip(*columns.values(), strict=True)]


def _attributes(text: str) -> dict[str, list[dict[str, str]]]:
    """Per kind ("p_act", about people; "l_act", about places) the attributes, each in all its forms."""
    slots = _slots(text)
    kinds = sorted({slot.split("-")[0].split(":")[0] for slot in slots})
    return {
        kind: [
            {slot.removeprefix(kind): slots[slot][index] for slot in sorted(slots) if slot.startswith(kind)}
            for index in range(len(slots[kind]))
        ]
        for kind in kinds
    }


class Subject(msgspec.Struct, frozen=True):
    """A name, nationality, race or religion that can stand in a template."""

    name: str
    demonym: str | None = None
    group: str | None = None


class Key(NamedTuple):
    """One example: two subjects in order, a template and an attribute. It has two questions."""

    place: int
    pair: int
    first: Subject
    second: Subject
    template: int
    attribute: int


class Population:
    """All examples of an axis, made on demand in the paper's order: pairs, pairs swapped; templates; attributes."""

    def __init__(self, axis: str, record: Mapping[str, Any]) -> None:
        self.axis = axis
        self.templates: list[tuple[str, str, str]] = [(line[0], line[1], line[2]) for line in record["templates"]]
        self.attributes: dict[str, list[dict[str, str]]] = record["attributes"]
        self.kinds = [_kind(question) for _, question, _ in self.templates]
        lists = [[msgspec.convert(subject, Subject) for subject in part] for part in record["subjects"]]
        self._couples = list(product(*lists) if len(lists) == 2 else combinations(lists[0], 2))
        self._ends = list(accumulate(len(self.attributes[kind]) for kind in self.kinds))
        self.per_pair = self._ends[-1]
        """Keys of a single ordered pair."""
        self.n_pairs = 2 * len(self._couples)
        """Ordered pairs."""

    def __len__(self) -> int:
        return self.n_pairs * self.per_pair

    def __iter__(self) -> Iterator[Key]:
        index = 0
        for pair in range(self.n_pairs):
            first, second = self.subjects(pair)
            for template, kind in enumerate(self.kinds):
                for attribute in range(len(self.attributes[kind])):
                    yield Key(index, pair, first, second, template, attribute)
                    index += 1

    def key(self, index: int) -> Key:
        """The key at a place in the order."""
        pair, rest = divmod(index, self.per_pair)
        template = bisect_right(self._ends, rest)
        start = self._ends[template - 1] if template else 0
        return Key(index, pair, *self.subjects(pair), template, rest - start)

    def subjects(self, pair: int) -> tuple[Subject, Subject]:
        is_swapped, place = divmod(pair, len(self._couples))
        first, second = self._couples[place]
        return (second, first) if is_swapped else (first, second)

    def swapped(self, pair: int) -> int:
        """The same two subjects in the other order."""
        return (pair + len(self._couples)) % self.n_pairs

    def context(self, key: Key) -> str:
        return _fill(self.templates[key.template][0], *self.answers(key))

    def question(self, key: Key, number: int) -> str:
        """Question 0 has the attribute, question 1 its negation or opposite."""
        kind = self.kinds[key.template]
        forms = self.attributes[kind][key.attribute]
        text = self.templates[key.template][1 + number]
        return _ATTRIBUTE.sub(lambda slot: forms[slot[1]], text)

    def answers(self, key: Key) -> tuple[str, str]:
        """The two subjects as the context writes them."""
        if "[subj1:dem]" not in self.templates[key.template][0]:
            return key.first.name, key.second.name
        return key.first.demonym or key.first.name, key.second.demonym or key.second.name

    def paper_sample(self) -> list[int]:
        """5,000 keys as the paper's notebook draws them."""
        size = min(PAPER_KEYS, len(self))
        return sorted(random.Random(SAMPLE_SEED).sample(range(len(self)), size))

    def balanced_sample(self) -> list[int]:
        """Return the first keys of 2,500 sets (both orders); each pair of subjects is drawn equally often."""
        rng = random.Random(SAMPLE_SEED)
        pairs = list(range(len(self._couples)))
        rng.shuffle(pairs)
        size = min(CORRECTED_SETS, len(pairs) * self.per_pair)
        turns, remainder = divmod(size, len(pairs))
        draws = ((pair, turns + (place < remainder)) for place, pair in enumerate(pairs))
        return sorted(pair * self.per_pair + rest for pair, n in draws for rest in rng.sample(range(self.per_pair), n))


def _kind(question: str) -> str:
    match = re.search(r"\[(\w+)", question)
    if match is None:
        raise DatasetError(f'unqover: the question "{question}" has no slot for an attribute')
    return match[1]


_SUBJECT = re.compile(r"(?:\b([Aa]) )?\[subj([12])(?::dem)?\]")
_ATTRIBUTE = re.compile(r"\[[lp]_act([^\]]*)\]")


def _fill(template: str, first: str, second: str) -> str:
    """The template with both subjects; "a" becomes "an" before a vowel."""

    def subject(slot: re.Match[str]) -> str:
        text = first if slot[2] == "1" else second
        return text if slot[1] is None else f"{slot[1]}{'n' if text[0] in 'AEIOU' else ''} {text}"

    return _SUBJECT.sub(subject, template)


def forms_of(subject: Subject) -> set[str]:
    """Everything that names a subject in a reply."""
    return {subject.name, subject.demonym or subject.name} | SPELLINGS.get(subject.demonym or "", set())


def group_of(axis: str, subject: Subject) -> str:
    """The group a subject counts for: its list for names, our mapping for race, otherwise itself."""
    own = subject.group or re.sub(r"\W+", "_", subject.name.casefold())
    return RACE_GROUPS.get(own, own) if axis == "race" else own


def polarities(axis: str, protocol: ProtocolName) -> tuple[str, str]:
    """Return the names of questions 0 and 1; in `corrected` an occupation is attributed or denied, not good."""
    return ("attributed", "denied") if axis == "gender" and protocol == "corrected" else ("negative", "positive")


def asked(population: Population, protocol: ProtocolName) -> Iterator[int]:
    """Indices of the keys a protocol asks: both orders of every set drawn, or the paper's random keys."""
    if protocol != "corrected":
        yield from population.paper_sample()
        return
    for index in population.balanced_sample():
        pair, rest = divmod(index, population.per_pair)
        yield index
        yield population.swapped(pair) * population.per_pair + rest
