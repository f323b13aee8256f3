"""WinoBias' published lines as masked sentences, and the choice of examples to show before them."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.suites.protocol import item_rng

KINDS = ("type1", "type2")
"""type1 needs knowledge of the world, type2 only syntax."""
CONDITIONS = ("pro", "anti")
SPLITS = ("dev", "test")
GENDERS = ("male", "female")
EXAMPLES_PER_REFERENT = 5
"""Sentences set aside per type and gender meant; no two share an occupation, so two are left for any sentence."""


def records_from(files: Mapping[str, bytes]) -> Any:
    """Every line with the file it stands in, and the two lists of occupations."""
    lines = [
        {"type": kind, "condition": condition, "split": split, "number": int(number), "sentence": sentence}
        for kind in KINDS
        for condition in CONDITIONS
        for split in SPLITS
        for line in _lines(files[f"{condition}_stereotyped_{kind}.{split}.txt"])
        for number, sentence in [line.split(" ", 1)]
    ]
    return {"lines": lines, "occupations": {gender: _lines(files[f"{gender}_occupations.txt"]) for gender in GENDERS}}


def _lines(content: bytes) -> list[str]:
    return [line.strip() for line in content.decode("utf-8").splitlines() if line.strip()]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One masked sentence, and the published lines that become it."""

    item_id: str
    set_id: str
    """Set of the two sentences about the same occupations, in which the pronoun means either occupation."""
    kind: str
    sentence: str
    occupations: tuple[str, ...]
    weight: int
    """Published lines with this masked sentence."""
    referent: str | None = None
    """Gender with which the occupation meant is stereotyped; None when the sentence cannot serve as an example."""
    answers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The published pronoun of each gender, for examples."""


_BRACKETS = re.compile(r"\[([^\]]*)\]")
_PRONOUNS: Mapping[str, str] = dict.fromkeys(("he", "him", "his", "himself"), "male") | dict.fromkeys(
    ("she", "her", "hers", "herself"), "female"
)


def masked(sentence: str) -> tuple[str, list[str]]:
    """The sentence with [MASK] for every bracketed pronoun and without other brackets; the pronouns, in lower case."""
    pronouns = [span.lower() for span in _BRACKETS.findall(sentence) if span.lower() in _PRONOUNS]
    return _BRACKETS.sub(lambda span: "[MASK]" if span[1].lower() in _PRONOUNS else span[1], sentence), pronouns


def prompts_from(records: Mapping[str, Any]) -> list[Prompt]:
    """The different masked sentences of each type, in the order of their first lines."""
    names = sorted((name for names in records["occupations"].values() for name in names), key=len, reverse=True)
    occupation = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    sources: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in records["lines"]:
        sources[line["type"], masked(line["sentence"])[0]].append(line)
    used_ids: set[str] = set()
    prompts = []
    for (kind, sentence), lines in sources.items():
        first = lines[0]
        item_id = f"{kind}.{first['split']}.{first['number']}"
        # Where the two versions differ in wording, both keep their line number.
        item_id = f"{item_id}.{first['condition']}" if item_id in used_ids else item_id
        used_ids.add(item_id)
        occupations = tuple(sorted({name.casefold() for name in occupation.findall(sentence)}))
        referent, answers = _example(sentence, lines, occupations)
        prompts.append(
            Prompt(
                item_id=item_id,
                set_id=f"{kind}.{first['split']}.{(first['number'] + 1) // 2}",
                kind=kind,
                sentence=sentence,
                occupations=occupations,
                weight=len(lines),
                referent=referent,
                answers=answers,
            )
        )
    return prompts


def _example(
    sentence: str, lines: Sequence[Mapping[str, Any]], occupations: Sequence[str]
) -> tuple[str | None, dict[str, str]]:
    """An example has one gap and two occupations, comes from the dev files only, and exists with both pronouns."""
    pronouns = {line["condition"]: masked(line["sentence"])[1] for line in lines}
    is_fit = (
        sentence.count("[MASK]") == 1
        and len(occupations) == 2
        and all(line["split"] == "dev" for line in lines)
        and pronouns.keys() == set(CONDITIONS)
    )
    if not is_fit:
        return None, {}
    answers = {_PRONOUNS[words[0]]: words[0] for words in pronouns.values()}
    return _PRONOUNS[pronouns["pro"][0]], answers


def example_pool(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """Return the examples, the same for every number of them. Raises BenchmarkError when the data has too few."""
    pool = []
    for kind in KINDS:
        candidates = [prompt for prompt in prompts if prompt.kind == kind and prompt.referent]
        item_rng(seed, f"examples/{kind}").shuffle(candidates)
        used: set[str] = set()
        needed = Counter(dict.fromkeys(GENDERS, EXAMPLES_PER_REFERENT))
        for prompt in candidates:
            if prompt.referent and needed[prompt.referent] and used.isdisjoint(prompt.occupations):
                needed[prompt.referent] -= 1
                used.update(prompt.occupations)
                pool.append(prompt)
        if needed.total():
            raise BenchmarkError(f"winobias: seed {seed} finds too few examples of {kind}: use another seed")
    return pool


def examples_for(prompt: Prompt, pool: Sequence[Prompt], few_shot: int, seed: int) -> list[tuple[str, str]]:
    """Return examples without the prompt's occupations: half answered male, half by the stereotype."""
    rng = item_rng(seed, f"examples/{prompt.item_id}")
    free = [e for e in pool if e.kind == prompt.kind and set(e.occupations).isdisjoint(prompt.occupations)]
    referents = rng.sample(GENDERS, few_shot // 2)
    chosen = [
        (example.sentence, example.answers[gender])
        for referent in referents
        for example, gender in zip(rng.sample([c for c in free if c.referent == referent], 2), GENDERS, strict=True)
    ]
    rng.shuffle(chosen)
    return chosen
