"""UnQover: the published lists, through the mirror."""

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.datasets import fetching
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.unqover.data import AXES, Population
from benchmarks.suites.unqover.suite import CANONICAL_KEYS, SOURCE, UnQover, parse
from tests.support.published import DATA, needs_data

UPSTREAM_NAME = {"gender": "gender", "nationality": "country", "race": "ethnicity", "religion": "religion"}
SMALL = UnQover().load("embedded").records


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    fetching.fetch(SOURCE, mirror=str(DATA), data_dir=home)
    return home


@pytest.fixture(scope="module")
def populations(data_dir: Path) -> dict[str, Population]:
    records = UnQover().load("canonical", data_dir).records
    return {axis: Population(axis, records[axis]) for axis in AXES}


@needs_data
class TestCanonical:
    """The published lists, through the mirror."""

    @pytest.mark.parametrize("axis", AXES)
    def test_published_counts(self, populations: dict[str, Population], axis: str) -> None:
        """Keys, ordered pairs, templates and attributes are the published ones; questions are twice the keys."""
        counts = json.loads((DATA / "unqover" / "counts.json").read_text())[UPSTREAM_NAME[axis]]
        population = populations[axis]

        assert len(population) == counts["unique_keys"] == CANONICAL_KEYS[axis]
        assert population.n_pairs == counts["ordered_pairs"]
        assert len(population.templates) == counts["templates"]
        for slot, n in counts["attributes"].items():
            form = slot.strip("[]").removeprefix("p_act").removeprefix("l_act")
            assert sum(form in entry for entry in population.attributes[slot[1:6]]) == n

    @pytest.mark.parametrize("axis", AXES)
    def test_contexts_are_different(self, populations: dict[str, Population], axis: str) -> None:
        """As many different contexts as published."""
        counts = json.loads((DATA / "unqover" / "counts.json").read_text())[UPSTREAM_NAME[axis]]
        population = populations[axis]
        n_attributes = [len(population.attributes[kind]) for kind in population.kinds]
        starts = [sum(n_attributes[:template]) for template in range(len(n_attributes))]
        places = (pair * population.per_pair + start for pair in range(population.n_pairs) for start in starts)

        assert len({population.context(population.key(place)) for place in places}) == counts["unique_contexts"]

    @pytest.mark.parametrize("axis", AXES)
    def test_streaming_holds_nothing(self, populations: dict[str, Population], axis: str) -> None:
        """The first 200,000 keys pass through less than 2 MB."""
        tracemalloc.start()
        try:
            n = sum(1 for _, key in zip(range(200_000), populations[axis], strict=False) if key)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert n == min(200_000, CANONICAL_KEYS[axis])
        assert peak < 2_000_000

    @pytest.mark.parametrize("axis", AXES)
    def test_paper_sample(self, populations: dict[str, Population], axis: str) -> None:
        """All 5,000 keys of the seeded sample, made by another implementation, with text and answers."""
        population = populations[axis]
        with gzip.open(DATA / "unqover" / f"sample5k_{UPSTREAM_NAME[axis]}.jsonl.gz", "rt", encoding="utf-8") as file:
            expected = [json.loads(line) for line in file]
        keys = [population.key(place) for place in population.paper_sample()]
        texts = [
            (population.context(k), *(population.question(k, n) for n in (0, 1)), *population.answers(k)) for k in keys
        ]

        assert len(set(texts)) == 5000
        assert sorted(texts) == sorted(
            (row["context"], row["q0"], row["q1"], row["ans0"], row["ans1"]) for row in expected
        )

    def test_items_of_both_protocols(self, data_dir: Path) -> None:
        """10,000 questions an axis in both; corrected has only whole sets and every pair of subjects in turn."""
        for protocol in UnQover.protocols:
            options = RunOptions(suite="unqover", model="m", protocol=protocol)
            items = prepare(options, data_dir).items
            assert Counter(item.axis for item in items) == dict.fromkeys(AXES, 10_000)
            assert len({item.item_id for item in items}) == 40_000
            if protocol == "corrected":
                assert set(Counter(item.cluster for item in items).values()) == {4}
                pairs = Counter(frozenset(c.text for c in item.choices) for item in items if item.axis == "religion")
                assert len(pairs) == 55
                assert max(pairs.values()) - min(pairs.values()) <= 4

    def test_race_groups(self, data_dir: Path) -> None:
        """The fifteen subjects fall into five printed groups and three kept apart."""
        items = prepare(RunOptions(suite="unqover", model="m"), data_dir).items
        groups = {axis: {group for item in items if item.axis == axis for group in item.groups} for axis in AXES}

        assert groups["race"] == {
            *("native_american", "black", "asian", "white", "hispanic"),
            *("jewish", "arab", "middle_eastern"),
        }
        assert {axis: len(found) for axis, found in groups.items()} == {
            "gender": 2,
            "nationality": 69,
            "race": 8,
            "religion": 11,
        }
        assert "saudi_arabia" in groups["nationality"]

    def test_the_misspelt_demonym(self, data_dir: Path) -> None:
        """ "Spainish" is asked as published; a reply that spells it right names Spain."""
        items = prepare(RunOptions(suite="unqover", model="m"), data_dir).items
        item = next(item for item in items if "Spainish" in item.choices[0].text)

        for text in ("Spainish", "Spanish", "Spain"):
            assert parse(item, text, protocol="corrected").value == 0

    def test_every_answer_is_read_back(self, data_dir: Path) -> None:
        """Naming either subject in any of its forms is understood as that subject."""
        ready = prepare(RunOptions(suite="unqover", model="m", limit=4000), data_dir)
        for item in ready.items:
            for place, forms in enumerate(item.meta["forms"]):
                for text in forms:
                    parsed = ready.suite.parse(item, f" {text}.", protocol="corrected")
                    assert (parsed.status, parsed.value) == ("ok", place), (item.item_id, text)

    def test_nothing_is_taken_from_the_lists(self, populations: dict[str, Population]) -> None:
        """No template and no attribute of ours is in the published lists."""
        published = {text for p in populations.values() for line in p.templates for text in line[:1]}
        published |= {
            text
            for p in populations.values()
            for part in p.attributes.values()
            for forms in part
            for text in forms.values()
        }
        ours = {line[0] for axis in AXES for line in SMALL[axis]["templates"]}
        ours |= {
            text
            for axis in AXES
            for part in SMALL[axis]["attributes"].values()
            for forms in part
            for text in forms.values()
        }

        assert not ours & published
