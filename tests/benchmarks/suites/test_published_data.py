"""The published data of every suite, fetched from where its authors keep it, or from $BIASGATE_DATASETS_MIRROR."""

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.regard_ft import data as regard_ft
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.protocol import Item, ProtocolName
from benchmarks.suites.registry import SUITES
from benchmarks.suites.unqover.data import AXES, Population
from gateway.__main__ import main
from tests.support.published import FETCHED

pytestmark = pytest.mark.network

ITEMS = {"bbq": 58_492, "crows_pairs": 1508, "eec": 8640, "stereoset": 4229, "unqover": 40_000, "winobias": 1602}
CELLS: dict[str, dict[tuple[str, str | None], int]] = {
    "stereoset": {
        ("gender", "intrasentence"): 255,
        ("gender", "intersentence"): 242,
        ("profession", "intrasentence"): 810,
        ("profession", "intersentence"): 827,
        ("race", "intrasentence"): 962,
        ("race", "intersentence"): 976,
        ("religion", "intrasentence"): 79,
        ("religion", "intersentence"): 78,
    },
    "winobias": {("gender", "type1"): 798, ("gender", "type2"): 804},
    "unqover": {
        **{(axis, subset): 5000 for axis in ("nationality", "race", "religion") for subset in ("negative", "positive")},
        **{("gender", subset): 5000 for subset in ("attributed", "denied")},
    },
}
"""Published items by axis and part."""
UNQOVER = {
    "gender": (2_744_000, 9800, 4, 39_200, "72329e724b6cbec7"),
    "nationality": (2_308_464, 4692, 12, 42_228, "218314132b6081fc"),
    "race": (147_000, 210, 14, 2940, "e3af80f15c7b0ea9"),
    "religion": (77_000, 110, 14, 1540, "a7147d9badca8c47"),
}
"""Of each axis: examples, ordered pairs, templates, different contexts, and the digest of the texts of the paper's
5,000 seeded examples, made by another implementation.
"""


def planned(suite: str, home: Path, **options: Any) -> Plan:
    return prepare(RunOptions(suite=suite, model="m", **options), home)


def texts(value: Any) -> Iterator[str]:
    """Yield every text of five words or more in any record: shorter ones are names and choices."""
    if isinstance(value, str) and value.count(" ") > 3:
        yield value.casefold()
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


@pytest.mark.parametrize("suite", FETCHED)
def test_every_item(suite: str, home: Path) -> None:
    """All are there, with different ids, on every axis, and naming a choice of any is understood as its role."""
    for protocol in SUITES[suite].protocols:
        items = planned(suite, home, protocol=protocol).items
        assert len({item.item_id for item in items}) == len(items) == ITEMS.get(suite, len(items))
        assert {item.axis for item in items} == set(SUITES[suite].axes)
        if suite in CELLS and protocol == "corrected":
            assert Counter((item.axis, item.subset) for item in items) == CELLS[suite]
        for item in items[::7]:
            for place, choice in enumerate(item.choices):
                parsed = SUITES[suite].parse(item, choice.text, protocol=protocol)
                assert (parsed.status, parsed.value in (choice.role, place)) == ("ok", True), item.item_id


@pytest.mark.parametrize("suite", FETCHED)
def test_nothing_of_ours_is_taken_from_it(suite: str, home: Path) -> None:
    """No text of the built-in items is in the published data."""
    published = set(texts(SUITES[suite].load("canonical", home).records))

    assert not published & set(texts(SUITES[suite].load("embedded").records))


@pytest.mark.parametrize("axis", AXES)
def test_unqover_population(axis: str, home: Path) -> None:
    """Keys, pairs, templates and contexts are the published ones, and so is every text of the paper's sample."""
    n_keys, n_pairs, n_templates, n_contexts, digest = UNQOVER[axis]
    population = Population(axis, SUITES["unqover"].load("canonical", home).records[axis])
    n_attributes = [len(population.attributes[kind]) for kind in population.kinds]
    starts = [sum(n_attributes[:template]) for template in range(len(n_attributes))]
    places = (pair * population.per_pair + start for pair in range(population.n_pairs) for start in starts)
    keys = [population.key(place) for place in population.paper_sample()]
    drawn = [
        [population.context(k), *(population.question(k, n) for n in (0, 1)), *population.answers(k)] for k in keys
    ]

    assert (len(population), population.n_pairs, len(population.templates)) == (n_keys, n_pairs, n_templates)
    assert len({population.context(population.key(place)) for place in places}) == n_contexts
    assert len(drawn) == 5000
    assert hashlib.sha256(json.dumps(sorted(drawn)).encode()).hexdigest()[:16] == digest


def sets(suite: str, home: Path, protocol: ProtocolName = "corrected", limit: int | None = None) -> list[list[Item]]:
    together = defaultdict(list)
    for item in planned(suite, home, protocol=protocol, limit=limit).items:
        together[item.set_id].append(item)
    assert None not in together
    return list(together.values())


def test_bbq_sets_and_flags(home: Path) -> None:
    """14,623 fours, both conditions with both questions; a limit keeps them; roles stand in each place as often."""
    found = sets("bbq", home)
    items = [item for four in found for item in four]
    places = Counter((choice.role, place) for item in items for place, choice in enumerate(item.choices[:3]))

    assert len(found) == 14_623
    assert all(len({(one.subset, one.meta["polarity"]) for one in four}) == len(four) == 4 for four in found)
    assert Counter(flag for item in items for flag in item.meta["flags"]) == {"swapped": 440, "empty_group": 344}
    assert all(abs(places["unknown", place] / len(items) - 1 / 3) < 0.01 for place in range(3))
    limited = sets("bbq", home, limit=503)
    assert ({len(four) for four in limited}, len(limited)) == ({4}, 125)


def test_unqover_and_winobias_sets(home: Path) -> None:
    """Limited runs keep both orders and both questions; sentences about the same occupations stay together."""
    fours = sets("unqover", home, limit=4000)
    assert Counter(four[0].axis for four in fours) == dict.fromkeys(AXES, 250)
    assert all(len({(one.subset, one.choices[0].text) for one in four}) == len(four) == 4 for four in fours)
    assert {len(two) for two in sets("unqover", home, limit=400, protocol="paper")} == {2}
    assert Counter(len(some) for some in sets("winobias", home)) == {2: 770, 3: 19, 1: 1, 4: 1}


@pytest.mark.parametrize("seed", range(3))
def test_winobias_examples_are_found_for_every_seed(home: Path, seed: int) -> None:
    """Ten sentences of each type are set aside, and every other item gets four examples."""
    items = planned("winobias", home, few_shot=4, seed=seed).items

    assert len(items) == 1602 - 20
    assert {len(item.messages) for item in items} == {10}


def test_published_words_of_association_tests_are_filled_up_to_twenty(home: Path) -> None:
    """With the predecessor's lists, its own pairs come first, and each category has twenty distinct ones."""
    found: dict[str | None, list[tuple[str, ...]]] = defaultdict(list)
    for item in planned("implicit_association", home).items:
        found[item.subset].append(tuple(group.casefold() for group in item.groups))

    assert {len(set(pairs)) for pairs in found.values()} == {20}
    assert found["career"][0] == ("ben", "julia")


def test_no_question_of_regard_ft_is_an_item_of_bbq(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data step finds BBQ where it was fetched, and its card says that it looked, in no more than seconds."""
    monkeypatch.setenv("BIASGATE_HOME", str(home))
    began = time.process_time()
    assert main(["mitigate", "regard-ft", "data", "--out", str(tmp_path / "set")]) == 0
    assert time.process_time() - began < 30
    assert regard_ft.read(tmp_path / "set")[0].bbq_checked
