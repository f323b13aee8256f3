"""A file that users get from its authors: any copy with the pinned content is taken, any other refused in one line."""

import csv
import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import by_hand, fetching, published
from benchmarks.datasets.spec import DatasetSpec, SourceFile, content_sha256, csv_rows
from benchmarks.errors import DatasetError

ROWS = [{"ID": str(n), "Sentence": f"Our sentence, number {n}.", "Race": ""} for n in range(3)]


def normalise(files: Mapping[str, bytes]) -> Any:
    (content,) = files.values()
    return [{name: row[name] for name in ("ID", "Sentence", "Race")} for row in csv_rows(content)]


SPEC = DatasetSpec(
    name="corpus",
    title="Corpus",
    licence="none stated",
    n_items=3,
    files=(SourceFile(sha256="0" * 64, mirror_path="corpus/Corpus.csv.gz", mirror_sha256="0" * 64),),
    content_sha256=content_sha256(ROWS),
    normalise=normalise,
    by_hand="its authors' page",
)


def written(rows: list[dict[str, str]] = ROWS, *, columns: str = "ID Sentence Race", end: str = "\n") -> bytes:
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, columns.split(), lineterminator=end, extrasaction="ignore", restval="x")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue().encode()


def zipped(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


AS_SHIPPED = zipped(
    ("Corpus/README.txt", b"Thank you."), ("Corpus/Corpus.csv", written()), ("__MACOSX/Corpus/Corpus.csv", b"\0")
)


@pytest.mark.parametrize(
    "copy",
    [
        written(),
        written(end="\r\n"),
        written(end="\r"),
        b"\xef\xbb\xbf" + written(end="\r\n"),
        written() + b"\n\n",
        written(columns="Race Sentence ID"),
        written(columns="Other ID Race Sentence"),
        gzip.compress(written(), mtime=0),
        zipped(("Corpus.csv", written())),
        AS_SHIPPED,
    ],
    ids=["plain", "crlf", "cr", "bom", "blank lines", "columns", "more columns", "gzip", "zip", "folder in a zip"],
)
def test_copies_with_the_same_content_are_taken(tmp_path: Path, copy: bytes) -> None:
    """Line ends, byte order mark, packing and order of columns make no difference; the name of the file does not."""
    (tmp_path / "download").write_bytes(copy)
    fetching.fetch(SPEC, mirror=str(tmp_path / "download"), data_dir=tmp_path)

    assert published.state(SPEC, tmp_path).state == "present"
    assert published.load(SPEC, tmp_path) == ROWS


@pytest.mark.parametrize(
    "place",
    ["corpus/Corpus.csv.gz", "Corpus.csv.gz", "corpus/Corpus.csv", "Corpus.csv", "corpus/Corpus.zip", "Corpus.zip"],
)
def test_a_directory_may_hold_it(tmp_path: Path, place: str) -> None:
    """Under its own name, or where a mirror has it."""
    (tmp_path / "d" / place).parent.mkdir(parents=True)
    (tmp_path / "d" / place).write_bytes(AS_SHIPPED if place.endswith("zip") else written())
    fetching.fetch(SPEC, mirror=str(tmp_path / "d"), data_dir=tmp_path)

    assert published.state(SPEC, tmp_path).state == "present"


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        (written([*ROWS[:-1], ROWS[2] | {"Sentence": "Another."}]), "differs from the pinned one: expected"),
        (written(ROWS[:2]), "differs from the pinned one"),
        (written(ROWS[::-1]), "differs from the pinned one"),
        (written(columns="ID Sentence"), "another shape"),
        (written()[:-20], "another shape|differs from the pinned one"),
        (b"", "another shape"),
        (b"<html>Not found</html>", "another shape|differs from the pinned one"),
        (b"\xff\xfe" + written().decode().encode("utf-16-le"), "another shape"),
        (zipped(("Other.csv", written())), "must hold Corpus.csv once, not 0 times: unpack it"),
        (zipped(("a/Corpus.csv", written()), ("b/Corpus.csv", written())), "not 2 times"),
        (AS_SHIPPED[:-30], "cannot be unpacked"),
        (gzip.compress(written(), mtime=0)[:-9], "cannot be unpacked"),
    ],
)
def test_others_are_refused_in_one_line(tmp_path: Path, copy: bytes, reason: str) -> None:
    """Another version, a page instead of a file, a cut archive: nothing is kept, and the message says what it is."""
    (tmp_path / "download").write_bytes(copy)
    with pytest.raises(DatasetError, match=reason) as refused:
        fetching.fetch(SPEC, mirror=str(tmp_path / "download"), data_dir=tmp_path)

    assert str(refused.value).startswith("corpus: ")
    assert "\n" not in str(refused.value)
    assert published.state(SPEC, tmp_path).state == "absent"


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is never unpacked beyond a bound."""
    monkeypatch.setattr(by_hand, "LARGEST_BYTES", 5000)
    (tmp_path / "download").write_bytes(gzip.compress(bytes(5001)))
    with pytest.raises(DatasetError, match="unpacks to more than 5000 bytes"):
        fetching.fetch(SPEC, mirror=str(tmp_path / "download"), data_dir=tmp_path)


def test_a_wrong_path_names_what_is_looked_for(tmp_path: Path) -> None:
    """Neither a file nor a directory with one."""
    with pytest.raises(DatasetError, match=r"is neither a file nor a directory with one of corpus/Corpus\.csv\.gz"):
        fetching.fetch(SPEC, mirror=str(tmp_path / "nowhere"), data_dir=tmp_path)
