"""RealToxicityPrompts: the user's own download, the published part of the file, and Table 12."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks.datasets import environment, fetching
from benchmarks.datasets import published as datasets
from benchmarks.errors import DatasetError
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.real_toxicity_prompts.data import (
    AXES,
    N_RECORDS,
    SOURCE,
    Record,
    drawn,
    is_gendered,
    read,
    sentence_id,
    toxic_text,
)
from benchmarks.suites.real_toxicity_prompts.prompts import GROUPS
from benchmarks.suites.real_toxicity_prompts.suite import RealToxicityPrompts
from tests.support.benchmarks.toxicity import line
from tests.support.published import DATA, TABLES, needs_data, needs_tables


class TestByHand:
    """The complete file is brought by the user; no hash of it is known to us."""

    def test_not_downloaded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fetching without a mirror says where to get the file and where to put it; nothing is requested."""
        monkeypatch.delenv(environment.MIRROR_VARIABLE, raising=False)

        with pytest.raises(
            DatasetError, match=r"allenai/real-toxicity-prompts .* --mirror FILE` with the file you got"
        ):
            fetching.fetch(SOURCE, data_dir=tmp_path)

    def test_incomplete_file_is_refused(self, tmp_path: Path) -> None:
        """A part of the file is not the data set."""
        with pytest.raises(DatasetError, match="2 records instead of 99442"):
            fetching.fetch(SOURCE, mirror=str(brought(tmp_path, 2)), data_dir=tmp_path)

        assert datasets.state(SOURCE, tmp_path).state == "absent"

    def test_another_shape_is_refused(self, tmp_path: Path) -> None:
        """A record without a score field stops the reading."""
        mirror = brought(tmp_path, 0)
        (mirror / SOURCE.files[0].mirror_path).write_bytes(b'{"prompt": {"text": "a"}, "continuation": {"text": "b"}}')

        with pytest.raises(DatasetError, match="another shape"):
            fetching.fetch(SOURCE, mirror=str(mirror), data_dir=tmp_path)

    def test_complete_file(self, tmp_path: Path) -> None:
        """99,442 records are taken, 40,000 questions asked, and the result carries the hash of what was used."""
        path = fetching.fetch(SOURCE, mirror=str(brought(tmp_path, N_RECORDS)), data_dir=tmp_path)
        ready = prepare(RunOptions(suite="real_toxicity_prompts", model="m"), tmp_path)

        assert datasets.state(SOURCE, tmp_path).state == "present"
        assert ready.dataset.sha256 == datasets.state(SOURCE, tmp_path).sha256
        assert len(ready.items) == len({item.item_id for item in ready.items}) == ready.dataset.n_canonical == 40_000

        path.write_bytes(path.read_bytes().replace(b"You 7 fools", b"You 8 fools"))
        assert datasets.state(SOURCE, tmp_path).state == "damaged"
        with pytest.raises(DatasetError, match="not the pinned"):
            RealToxicityPrompts().load("canonical", tmp_path)


def brought(folder: Path, n_records: int) -> Path:
    """A mirror with a file of so many records of our own."""
    path = folder / "mirror" / SOURCE.files[0].mirror_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(map(line, range(n_records))))
    return folder / "mirror"


@pytest.fixture(scope="module")
def partial_file() -> list[Record]:
    return read(gzip.decompress((DATA / "realtoxicityprompts" / "rtp_partial.jsonl.gz").read_bytes()))


@needs_data
class TestPublishedPart:
    """9,176 of the published records, in the published shape."""

    def test_selection(self, partial_file: list[Record]) -> None:
        """6,088 have a toxic half, 77 lack a score; without gendered words 4,019 different sentences are left."""
        halves = [half for one in partial_file for half in (one.prompt, one.continuation)]

        assert len(partial_file) == 9176
        assert sum(half.toxicity is None for half in halves) == 77
        assert sum(bool(toxic_text(one)) for one in partial_file) == 6088
        chosen = drawn(partial_file, seed=0)
        assert len(chosen) == 4019
        assert not any(map(is_gendered, chosen.values()))

    def test_asked(self, partial_file: list[Record]) -> None:
        """Every selected sentence becomes four questions that quote it."""
        suite = RealToxicityPrompts()
        dataset = replace(suite.load("embedded"), records=msgspec.to_builtins(partial_file))
        items = list(suite.items(dataset, protocol="paper", seed=0))

        assert len(items) == 4 * 4019
        for item, sentence in zip(items, 4 * list(drawn(partial_file, seed=0).values()), strict=True):
            assert item.cluster == sentence_id(sentence)
            assert item.messages[1].content == f"Sentence: “{sentence}”."

    def test_nothing_embedded_is_taken_from_it(self, partial_file: list[Record]) -> None:
        """No half of ours is a published one."""
        published = {half.text.strip() for one in partial_file for half in (one.prompt, one.continuation)}
        ours = RealToxicityPrompts().load("embedded").records

        assert not {one[half]["text"].strip() for one in ours for half in ("prompt", "continuation")} & published


@pytest.fixture(scope="module")
def table12() -> dict[str, dict[tuple[str, str], float]]:
    """Model to (axis, label) to percentage."""
    values: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    with (TABLES / "nollm_table12_rtp.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            axis, label = row["axis_or_category"].split("/")
            values[row["model"]][axis, label] = float(row["value"])
    return values


@needs_tables
class TestTable12:
    """The printed percentages."""

    def test_columns(self, table12: dict[str, dict[tuple[str, str], float]]) -> None:
        """Gender and race sum to 100; religion and profession leave out Shintoism and ten professions."""
        for model, values in table12.items():
            sums = {axis: sum(v for (name, _), v in values.items() if name == axis) for axis in AXES}
            assert [sums["gender"], sums["race"]] == pytest.approx([100.0, 100.0]), model
            assert 93.34 < sums["profession"] < 99.95, model
            assert 98.29 < sums["religion"] < 100.001, model
        assert sum(v for (axis, _), v in table12["LL-8B"].items() if axis == "profession") == pytest.approx(93.35)

    def test_labels_are_ours(self, table12: dict[str, dict[tuple[str, str], float]]) -> None:
        """Every printed row is one of our groups ("Buddism" apart), and what is missing is what the card says."""
        printed = {axis: {label.replace(" ", "_") for name, label in table12["LL-8B"] if name == axis} for axis in AXES}
        missing = {axis: set(GROUPS[axis]) - printed[axis] for axis in AXES}

        assert {axis: printed[axis] - set(GROUPS[axis]) for axis in AXES} == {
            axis: {"unrelated", "buddism"} if axis == "religion" else {"unrelated"} for axis in AXES
        }
        assert (missing["gender"], missing["race"], missing["religion"]) == (set(), set(), {"buddhism", "shintoism"})
        assert len(missing["profession"]) == 10

    def test_x_nlf_11(self, table12: dict[str, dict[tuple[str, str], float]]) -> None:
        """X-NLF-11: the text says Asians come second and Christianity, Islam, Hinduism in order; two models differ."""

        def ranked(model: str, axis: str) -> list[str]:
            values = {k[1]: v for k, v in table12[model].items() if k[0] == axis and k[1] != "unrelated"}
            return sorted(values, key=lambda label: -values[label])

        assert ranked("PHI-3.5B", "race")[:3] == ["white", "black", "asian"]
        assert (table12["PHI-3.5B"]["race", "black"], table12["PHI-3.5B"]["race", "asian"]) == (5.22, 1.00)
        assert {m: ranked(m, "race")[1] for m in ("MST-7B", "LL-8B")} == {"MST-7B": "asian", "LL-8B": "asian"}
        assert ranked("LL-8B", "religion")[:4] == ["christianity", "hinduism", "buddism", "islam"]
        assert [table12["LL-8B"]["religion", name] for name in ("hinduism", "buddism", "islam")] == [19.52, 11.92, 9.85]
