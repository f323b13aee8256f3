"""Builds the training set of REGARD-FT: every stem about each group, with the checks that it must pass.
Our own questions run a group down, answers deny the premise and say what the thing depends on and what helps; none
compares groups. `stems.toml`: ten topics of ten skills and ten settings make 1,000 stems with the slot `{group}`.
A user's file has stems of any axis. Source: protocols 2.13 (the paper prints one example; its data are not published).
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auditors.json_errors import UNREADABLE
from auditors.text.own_identities import Name, Words
from auditors.text.user_files import read_utf8
from auditors.types import Message
from benchmarks.errors import BenchmarkError, decode_lines
from benchmarks.lab.training import artefact
from benchmarks.lab.training.artefact import Example
from benchmarks.suites.ltf_test.data import questions

GENERATOR, OWN = "composed-1", "own"
AXIS, GROUPS = "gender", ("women", "men")
N_STEMS = 1000
SLOT = "{group}"
OWN_LINE = '{"axis": "age", "groups": ["older people", "young people"], "question": "...{group}...?", "answer": "..."}'
REMEDY = (
    f'deny with "not", without comparing ("than", "better"), name groups by {SLOT}, ask nothing of the long-text test'
)
CARD, DATA = "card.json", "data.jsonl"

COMPARATIVE = re.compile(
    r"\b(?:than|superior|inferior|compared|unlike|whereas|outperform\w*|better|worse|best|worst|more|most|less|least)\b",
    re.IGNORECASE,
)
"""Words without which no group can be set above another. Broad on purpose: our own answers can do without them."""
_WORD = re.compile(r"\w+")


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Skills that fit every setting, and what they depend on."""

    name: str
    skills: tuple[str, ...]
    settings: tuple[str, ...]
    reasons: tuple[str, ...]


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parts of stems and their answers."""

    forms: tuple[str, ...]
    denials: tuple[str, ...]
    closings: tuple[str, ...]
    topics: tuple[Topic, ...]


PARTS = msgspec.toml.decode(resources.files(__package__).joinpath("stems.toml").read_bytes(), type=Parts)


class Stem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of a user's file: a question with its answer, both with `SLOT`, and the groups asked about."""

    axis: Name = AXIS
    groups: Annotated[tuple[Words, ...], Meta(min_length=2, max_length=8)] = GROUPS
    question: Words
    answer: Annotated[str, Meta(min_length=1, max_length=2000)]
    topic: Words = OWN


class Pair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of data.jsonl: a question about one group, and its answer."""

    id: str
    stem_id: int
    axis: str = AXIS
    topic: str
    target_group: str
    question: str
    answer: str
    generator: str
    checks: dict[str, bool]
    """denies: the premise; no_comparison: of groups; no_other_group: no turning round; not_in_test: of LTF-TEST."""


class DataCard(msgspec.Struct, frozen=True, kw_only=True):
    """card.json of a training set."""

    schema: int = 1
    generator: str
    seed: int
    groups: tuple[str, ...]
    axes: tuple[str, ...] = (AXIS,)
    own_sha256: str | None = None
    """sha256 of the user's file; None for our stems."""
    n_stems: int
    n_pairs: int
    by_group: dict[str, int]
    by_topic: dict[str, int]
    data_sha256: str
    bbq_checked: bool
    """True when the questions of BBQ were there to be compared with; False: they are not on this machine."""


def build(*, n_stems: int = N_STEMS, seed: int = 0) -> list[Pair]:
    """Return both groups' pairs of our stems, in a seeded order. BenchmarkError: too many stems or a failed check."""
    everything = list(_stems())
    if not 1 <= n_stems <= len(everything):
        raise BenchmarkError(f"--stems {n_stems}: there are {len(everything)}: choose 1 to {len(everything)}")
    chosen = random.Random(f"stems/{seed}").sample(everything, n_stems)
    test_questions = _Asked()
    return [
        pair
        for number, stem in enumerate(chosen)
        for pair in _pairs(number, _answered(number, *stem, seed), test_questions)
    ]


def read_own(path: Path) -> tuple[list[Pair], str]:
    """Return the pairs of a user's file and its sha256. Raises BenchmarkError: line, value and remedy."""
    try:
        content = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be read: {exc.strerror}") from exc
    pairs: list[Pair] = []
    first: dict[tuple[str, str], str] = {}
    axes: dict[str, set[str]] = {}
    test_questions = _Asked()
    for number, (place, stem) in enumerate(decode_lines(content, Stem, path, f"each line is {OWN_LINE}")):
        fault = _fault(stem, axes.setdefault(stem.axis, set(stem.groups)))
        if (earlier := first.setdefault((stem.axis, _normal(stem.question)), place)) != place:
            fault = f"the question of {earlier} again: leave one out"
        if fault:
            raise BenchmarkError(f"{place}: {fault}")
        pairs += _pairs(number, stem, test_questions, place)
    if not pairs:
        raise BenchmarkError(f"{path}: holds no pair: each line is {OWN_LINE}")
    return pairs, hashlib.sha256(content).hexdigest()


def _fault(stem: Stem, groups: set[str]) -> str | None:
    """Return the fault of a user's stem about `groups` that no check finds; None without one."""
    if SLOT not in stem.question or any(_names(stem.question, group) for group in stem.groups):
        return f'the question "{stem.question}" must name groups by {SLOT} alone'
    if set(stem.groups) != groups or len({_normal(group) for group in stem.groups}) != len(stem.groups):
        expected = ", ".join(sorted(groups))
        return f"groups {', '.join(stem.groups)}: axis {stem.axis} needs {expected} as above, each once"
    return None


def examples(pairs: Sequence[Pair]) -> list[Example]:
    return [Example((Message("user", pair.question),), pair.answer) for pair in pairs]


def demand_balance(pairs: Sequence[Pair]) -> None:
    """Raises BenchmarkError unless each stem has the same question and answer about each group, each once."""
    groups: dict[str, set[str]] = {}
    by_stem: dict[tuple[str, int], dict[str, tuple[str, str]]] = {}
    for pair in pairs:
        texts = tuple(_without(text, pair.target_group) for text in (pair.question, pair.answer))
        groups.setdefault(pair.axis, set()).add(pair.target_group)
        if pair.target_group in by_stem.setdefault((pair.axis, pair.stem_id), {}):
            raise BenchmarkError(f"{pair.id}: a second question about {pair.target_group} of stem {pair.stem_id}")
        by_stem[pair.axis, pair.stem_id][pair.target_group] = (texts[0], texts[1])
    for (axis, stem_id), by_group in by_stem.items():
        if len(by_group) < 2 or set(by_group) != groups[axis] or len(set(by_group.values())) != 1:
            names = ", ".join(sorted(groups[axis]))
            raise BenchmarkError(f"stem {stem_id}: its questions or answers about {names} are not the same")
    distinct = {(axis, texts[0]) for (axis, _), by_group in by_stem.items() for texts in by_group.values()}
    if len(distinct) != len(by_stem):
        raise BenchmarkError(f"{len(by_stem)} stems, of which {len(distinct)} differ: each question stands once")


def demand_no_bbq(pairs: Sequence[Pair], items: Sequence[str]) -> None:
    """Raises BenchmarkError when a question is an item of BBQ."""
    bbq_items = {_normal(text) for text in items}
    for pair in pairs:
        if _normal(pair.question) in bbq_items:
            raise BenchmarkError(f"{pair.id}: its question is an item of BBQ: {pair.question}")


def write(out: Path, pairs: Sequence[Pair], *, seed: int, bbq_checked: bool, own_sha256: str | None = None) -> DataCard:
    """Write data.jsonl and card.json into a new directory. Raises BenchmarkError where they cannot be written."""
    content = msgspec.json.Encoder().encode_lines(pairs)
    card = DataCard(
        generator=pairs[0].generator,
        seed=seed,
        groups=tuple(dict.fromkeys(pair.target_group for pair in pairs)),
        axes=tuple(dict.fromkeys(pair.axis for pair in pairs)),
        own_sha256=own_sha256,
        n_stems=len({pair.stem_id for pair in pairs}),
        n_pairs=len(pairs),
        by_group=dict(Counter(pair.target_group for pair in pairs)),
        by_topic=dict(Counter(pair.topic for pair in pairs)),
        data_sha256=hashlib.sha256(content).hexdigest(),
        bbq_checked=bbq_checked,
    )
    artefact.begin(out, {DATA: content})
    artefact.write(out / CARD, card)
    return card


def read(path: Path) -> tuple[DataCard, list[Pair]]:
    """Return card and pairs. Raises BenchmarkError for another directory, or content that is not the card's."""
    try:
        card = msgspec.json.decode((path / CARD).read_bytes(), type=DataCard)
        content = (path / DATA).read_bytes()
        pairs = msgspec.json.Decoder(Pair).decode_lines(content)
    except (OSError, *UNREADABLE) as exc:
        raise BenchmarkError(f"{path}: no training set ({exc}): make one with mitigate regard-ft data") from exc
    if hashlib.sha256(content).hexdigest() != card.data_sha256:
        raise BenchmarkError(f"{path / DATA}: was changed since its card was written: make it again")
    return card, pairs


def _stems() -> Iterator[tuple[Topic, str, str]]:
    """Yield topic, skill and question. The form goes round, so that no skill and no setting has one alone."""
    for number, topic in enumerate(PARTS.topics):
        for row, skill in enumerate(topic.skills):
            for column, setting in enumerate(topic.settings):
                form = PARTS.forms[(number + row + column) % len(PARTS.forms)]
                yield topic, skill, form.format(group=SLOT, skill=skill, setting=setting)


class _Asked:
    """The questions of the long-text test, whole and as templates without their groups."""

    def __init__(self) -> None:
        every = list(questions())
        self.whole = {_normal(question.text) for question in every}
        self.templates = {_normal(_without(question.text, question.group1, question.group2)) for question in every}

    def holds(self, question: str, group: str) -> bool:
        return _normal(question) in self.whole or _normal(_without(question, group)) in self.templates


def _answered(number: int, topic: Topic, skill: str, question: str, seed: int) -> Stem:
    draw = random.Random(f"answer/{seed}/{number}")
    denial, reason, closing = draw.choice(PARTS.denials), draw.choice(topic.reasons), draw.choice(PARTS.closings)
    denied = denial.format(group=SLOT, skill=skill)
    answer = f"{denied} How well somebody does there depends on {reason}. {closing}"
    return Stem(question=question, answer=answer, topic=topic.name)


def _pairs(number: int, stem: Stem, test_questions: _Asked, where: str | None = None) -> Iterator[Pair]:
    """Yield a stem's pairs, in a user's file of the line `where`. BenchmarkError: a failed check, and what to do."""
    for group in stem.groups:
        question, answer = (text.replace(SLOT, group) for text in (stem.question, stem.answer))
        checks = check(answer, group, test_questions.holds(question, group), stem.groups)
        pair_id = f"{number:04}-{group}"
        if failed := [name for name, passed in checks.items() if not passed]:
            raise BenchmarkError(f"{where or pair_id}: fails {', '.join(failed)}: {question} {answer}: {REMEDY}")
        yield Pair(
            id=pair_id,
            stem_id=number,
            axis=stem.axis,
            topic=stem.topic,
            target_group=group,
            question=question,
            answer=answer,
            generator=OWN if where else GENERATOR,
            checks=checks,
        )


def check(answer: str, group: str, is_in_test: bool, groups: Sequence[str] = GROUPS) -> dict[str, bool]:
    """Every check of an answer, by name; see `Pair.checks`."""
    words = {word.casefold() for word in _WORD.findall(answer)}
    rest = _without(answer, group)
    return {
        "denies": "not" in words or "no" in words or "nothing" in words,
        "no_comparison": COMPARATIVE.search(answer) is None,
        "no_other_group": not any(_names(rest, other) for other in groups if other != group),
        "not_in_test": not is_in_test,
    }


def _names(text: str, group: str) -> bool:
    return re.search(rf"\b{re.escape(group)}\b", text, re.IGNORECASE) is not None


def _without(text: str, *groups: str) -> str:
    for group in groups:
        text = re.sub(rf"\b{re.escape(group)}\b", SLOT, text)
    return text


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
