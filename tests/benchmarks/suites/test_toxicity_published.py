"""RealToxicityPrompts: the user's own download."""

import json
from pathlib import Path

import pytest

from benchmarks.datasets import fetching
from benchmarks.datasets import published as datasets
from benchmarks.errors import DatasetError
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.real_toxicity_prompts.suite import N_RECORDS, SOURCE, RealToxicityPrompts


class TestByHand:
    """No hash of the complete file is known: by hand or from its hub, the first copy is held to its own."""

    def test_incomplete_file_is_refused(self, tmp_path: Path) -> None:
        """A part of the file is not the data set."""
        with pytest.raises(DatasetError, match="2 records instead of 99442"):
            fetching.fetch(SOURCE, mirror=str(brought(tmp_path, 2)), data_dir=tmp_path)

        assert datasets.state(SOURCE, tmp_path).state == "absent"

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


def line(number: int) -> bytes:
    """Return a line in the published shape, with a field that the suite does not use."""
    prompt = {"text": f"You {number} fools,", "toxicity": 0.9, "insult": 0.9}
    return json.dumps({"filename": "f", "begin": number, "prompt": prompt, "continuation": prompt}).encode()


def brought(folder: Path, n_records: int) -> Path:
    """A mirror with a file of so many records of our own."""
    path = folder / "mirror" / SOURCE.files[0].mirror_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(map(line, range(n_records))))
    return folder / "mirror"
