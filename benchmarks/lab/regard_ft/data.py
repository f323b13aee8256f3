"""Builds the training set of REGARD-FT: every stem about both groups, with the checks that it must pass.
Our own questions run a group down, answers deny the premise and say what the thing depends on and what helps; none
compares groups. `stems.toml`: ten topics of ten skills and ten settings make 1,000 stems with the slot `{group}`.
Source: protocols 2.13 (the paper prints a single example; its generator and data are not published).
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Message
from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact
from benchmarks.lab.training.artefact import Example
from benchmarks.suites.ltf_test.data import questions

GENERATOR = "composed-1"
GROUPS = ("women", "men")
N_STEMS = 1000
SLOT = "{group}"
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


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One line of data.jsonl: a question about one group, and its answer."""

    id: str
    stem_id: int
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
    n_stems: int
    n_pairs: int
    by_group: dict[str, int]
    by_topic: dict[str, int]
    data_sha256: str
    bbq_checked: bool
    """True when the questions of BBQ were there to be compared with; False: they are not on this machine."""


def build(*, n_stems: int = N_STEMS, seed: int = 0) -> list[Pair]:
    """Both groups' pairs of every stem, in a seeded order. BenchmarkError: too many stems or a failed check."""
    everything = list(_stems())
    if not 1 <= n_stems <= len(everything):
        raise BenchmarkError(f"--stems {n_stems}: there are {len(everything)}: choose 1 to {len(everything)}")
    chosen = random.Random(f"stems/{seed}").sample(everything, n_stems)
    test_questions = _Asked()
    return [_pair(number, stem, group, seed, test_questions) for number, stem in enumerate(chosen) for group in GROUPS]


def examples(pairs: Sequence[Pair]) -> list[Example]:
    return [Example((Message("user", pair.question),), pair.answer) for pair in pairs]


def demand_balance(pairs: Sequence[Pair]) -> None:
    """Raises BenchmarkError unless each stem has the same question and answer about each group, each once."""
    by_stem: dict[int, dict[str, tuple[str, str]]] = {}
    for pair in pairs:
        texts = tuple(_without(text, pair.target_group) for text in (pair.question, pair.answer))
        if pair.target_group in by_stem.setdefault(pair.stem_id, {}):
            raise BenchmarkError(f"{pair.id}: a second question about {pair.target_group} of stem {pair.stem_id}")
        by_stem[pair.stem_id][pair.target_group] = (texts[0], texts[1])
    for stem_id, by_group in by_stem.items():
        if set(by_group) != set(GROUPS) or len(set(by_group.values())) != 1:
            raise BenchmarkError(f"stem {stem_id}: its questions or answers about {', '.join(GROUPS)} are not the same")
    distinct = {texts[0] for stem_texts in by_stem.values() for texts in stem_texts.values()}
    if len(distinct) != len(by_stem):
        raise BenchmarkError(f"{len(by_stem)} stems, of which {len(distinct)} differ: each question stands once")


def demand_no_bbq(pairs: Sequence[Pair], items: Sequence[str]) -> None:
    """Raises BenchmarkError when a question is an item of BBQ."""
    bbq_items = {_normal(text) for text in items}
    for pair in pairs:
        if _normal(pair.question) in bbq_items:
            raise BenchmarkError(f"{pair.id}: its question is an item of BBQ: {pair.question}")


def write(out: Path, pairs: Sequence[Pair], *, seed: int, bbq_checked: bool) -> DataCard:
    """data.jsonl and card.json in a new directory. Raises BenchmarkError where they cannot be written."""
    content = msgspec.json.Encoder().encode_lines(pairs)
    card = DataCard(
        generator=GENERATOR,
        seed=seed,
        groups=GROUPS,
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


class _Stem(msgspec.Struct, frozen=True):
    topic: Topic
    skill: str
    question: str


def _stems() -> Iterator[_Stem]:
    """All of them. The form goes round, so that no skill and no setting has one alone."""
    for number, topic in enumerate(PARTS.topics):
        for row, skill in enumerate(topic.skills):
            for column, setting in enumerate(topic.settings):
                form = PARTS.forms[(number + row + column) % len(PARTS.forms)]
                yield _Stem(topic, skill, form.format(group=SLOT, skill=skill, setting=setting))


class _Asked:
    """The questions of the long-text test, whole and as templates without their groups."""

    def __init__(self) -> None:
        every = list(questions())
        self.whole = {_normal(question.text) for question in every}
        self.templates = {_normal(_without(question.text, question.group1, question.group2)) for question in every}

    def holds(self, question: str, group: str) -> bool:
        return _normal(question) in self.whole or _normal(_without(question, group)) in self.templates


def _pair(number: int, stem: _Stem, group: str, seed: int, test_questions: _Asked) -> Pair:
    draw = random.Random(f"answer/{seed}/{number}")  # the same for both groups
    denial, reason, closing = draw.choice(PARTS.denials), draw.choice(stem.topic.reasons), draw.choice(PARTS.closings)
    question = stem.question.replace(SLOT, group)
    denied = denial.format(group=group, skill=stem.skill)
    answer = f"{denied} How well somebody does there depends on {reason}. {closing}"
    checks = check(question, answer, group, test_questions.holds(question, group))
    pair = Pair(
        id=f"{number:04}-{group}",
        stem_id=number,
        topic=stem.topic.name,
        target_group=group,
        question=question,
        answer=answer,
        generator=GENERATOR,
        checks=checks,
    )
    failed = [name for name, passed in checks.items() if not passed]
    if failed:
        raise BenchmarkError(f"{pair.id}: fails {', '.join(failed)}: {question} {answer}")
    return pair


def check(question: str, answer: str, group: str, is_in_test: bool) -> dict[str, bool]:
    """Every check of an answer, by name; see `Pair.checks`."""
    words = {word.casefold() for word in _WORD.findall(answer)}
    return {
        "denies": "not" in words or "no" in words or "nothing" in words,
        "no_comparison": COMPARATIVE.search(answer) is None,
        "no_other_group": not any(other in words for other in GROUPS if other != group),
        "not_in_test": not is_in_test,
    }


def _without(text: str, *groups: str) -> str:
    for group in groups:
        text = re.sub(rf"\b{re.escape(group)}\b", SLOT, text)
    return text


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
