"""The published data sets: none is used in part, or in another version."""

import gzip
from pathlib import Path

import pytest

from benchmarks.datasets import fetching, published
from benchmarks.errors import DatasetError
from benchmarks.suites.registry import datasets
from tests.support.published import DATA, needs_data


def cut(content: bytes) -> bytes:
    return content[:-7]


def lengthened(content: bytes) -> bytes:
    return content + b"x"


@needs_data
@pytest.mark.parametrize("name", sorted(name for name, known in datasets().items() if known.content_sha256))
def test_no_published_file_is_used_in_part(name: str, tmp_path: Path) -> None:
    """Of every data set with a pinned content: cut short in its last file, or of another version, nothing is kept."""
    known = datasets()[name]
    last = known.files[-1].mirror_path
    for spoil in (cut, lengthened):
        mirror = tmp_path / "mirror"
        for file in known.files:
            (mirror / file.mirror_path).parent.mkdir(parents=True, exist_ok=True)
            (mirror / file.mirror_path).write_bytes((DATA / file.mirror_path).read_bytes())
        if known.by_hand:  # taken by its content, whatever the packing
            (mirror / last).write_bytes(spoil(gzip.decompress((mirror / last).read_bytes())))
        else:
            (mirror / last).write_bytes(spoil((mirror / last).read_bytes()))
        with pytest.raises(DatasetError) as refused:
            fetching.fetch(known, mirror=str(mirror), data_dir=tmp_path)

        assert "\n" not in str(refused.value)
        assert published.state(known, tmp_path).state == "absent"
