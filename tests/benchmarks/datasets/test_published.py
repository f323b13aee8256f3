"""Fetching and verifying: mirrors, wrong hashes, cut downloads."""

import gzip
import hashlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.datasets import by_hand, fetching, published, spec
from benchmarks.datasets.spec import DatasetSpec, SourceFile, content_sha256, csv_rows
from benchmarks.errors import DatasetError
from tests.support.benchmarks.serving import answering, serving

RAW = json.dumps({"about": "ten", "data": [{"id": "1", "text": "A dry day “é”."}]}, indent=2).encode()
PACKED = gzip.compress(RAW, mtime=0)
CONTENT = content_sha256([{"id": "1", "text": "A dry day “é”."}])


def normalise(files: Mapping[str, bytes]) -> Any:
    return json.loads(files["raw.json"])["data"]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> DatasetSpec:
    """A data set of one file and one record, pinned to the bytes above."""
    monkeypatch.delenv(spec.MIRROR_VARIABLE, raising=False)
    return DatasetSpec(
        name="tiny",
        title="Tiny",
        licence="CC0",
        n_items=1,
        files=(
            SourceFile(
                url="http://127.0.0.1:1/nothing",
                git_blob=fetching.git_blob_id(RAW),
                mirror_path="tiny/raw.json.gz",
                mirror_sha256=hashlib.sha256(PACKED).hexdigest(),
            ),
        ),
        content_sha256=CONTENT,
        normalise=normalise,
    )


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror" / "tiny"
    folder.mkdir(parents=True)
    (folder / "raw.json.gz").write_bytes(PACKED)
    return tmp_path / "mirror"


def at(known: DatasetSpec, url: str | None) -> DatasetSpec:
    """The same data set with its one file at another URL."""
    return replace(known, files=(replace(known.files[0], url=url),))


def test_git_blob_id_is_gits() -> None:
    """The id of an empty file is the one every git repository knows."""
    assert fetching.git_blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_mirror_named_by_environment(
    tiny: DatasetSpec, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BIASGATE_DATASETS_MIRROR and BIASGATE_HOME are used when nothing else is said."""
    monkeypatch.setenv(spec.MIRROR_VARIABLE, str(mirror))
    monkeypatch.setenv(spec.HOME_VARIABLE, str(tmp_path / "home"))

    assert fetching.fetch(tiny) == tmp_path / "home" / "datasets" / "tiny" / "content.json"


def test_fetch_from_upstream_checks_the_git_blob(tiny: DatasetSpec, tmp_path: Path) -> None:
    """The upstream file is recognised by its blob id and gives the same content as the mirror."""
    with serving({"/dev.json": RAW}) as (url, _):
        fetching.fetch(at(tiny, f"{url}/dev.json"), data_dir=tmp_path)

    assert published.state(tiny, tmp_path).sha256 == CONTENT


def test_wrong_upstream_is_refused_with_both_ids(tiny: DatasetSpec, tmp_path: Path) -> None:
    """Another file under the pinned URL is discarded; both ids are in the message."""
    other = RAW + b" "
    with serving({"/dev.json": other}) as (url, _), pytest.raises(DatasetError) as refused:
        fetching.fetch(at(tiny, f"{url}/dev.json"), data_dir=tmp_path)

    assert str(tiny.files[0].git_blob) in str(refused.value)
    assert fetching.git_blob_id(other) in str(refused.value)
    assert list((tmp_path / "datasets" / "tiny").iterdir()) == []


def test_a_file_without_a_known_hash_is_trusted_once(tiny: DatasetSpec, tmp_path: Path) -> None:
    """The first download sets the hash; other content is refused with both hashes, and a changed cache is damaged."""
    file = SourceFile(is_trusted_first=True, mirror_path="tiny/raw.json", mirror_sha256="")
    first = replace(tiny, content_sha256="", files=(file,))
    with serving({"/raw.json": RAW, "/other.json": RAW.replace(b"dry", b"wet")}) as (url, _):
        path = fetching.fetch(at(first, f"{url}/raw.json"), data_dir=tmp_path)
        assert published.state(first, tmp_path).expected_sha256 == CONTENT
        path.write_bytes(b"[]")
        assert published.state(first, tmp_path).state == "damaged"
        with pytest.raises(DatasetError, match=f"not the content of the first download.*{CONTENT}, found") as refused:
            fetching.fetch(at(first, f"{url}/other.json"), data_dir=tmp_path)
        assert "content.sha256" in str(refused.value)
        fetching.fetch(at(first, f"{url}/raw.json"), data_dir=tmp_path)
    assert published.state(first, tmp_path).state == "present"


def test_wrong_mirror_is_refused_with_both_hashes(tiny: DatasetSpec, mirror: Path, tmp_path: Path) -> None:
    """A mirror with another version is refused; nothing is kept."""
    other = gzip.compress(RAW.replace(b"dry", b"wet"), mtime=0)
    (mirror / "tiny" / "raw.json.gz").write_bytes(other)

    with pytest.raises(DatasetError) as refused:
        fetching.fetch(tiny, mirror=str(mirror), data_dir=tmp_path)

    assert tiny.files[0].mirror_sha256 in str(refused.value)
    assert hashlib.sha256(other).hexdigest() in str(refused.value)
    assert published.state(tiny, tmp_path).state == "absent"


def test_content_is_pinned_whatever_the_file(tiny: DatasetSpec, mirror: Path, tmp_path: Path) -> None:
    """A file with the right hash but another content than pinned is refused too."""
    other = replace(tiny, content_sha256="0" * 64)

    with pytest.raises(DatasetError, match=f"expected {'0' * 64}, found {CONTENT}"):
        fetching.fetch(other, mirror=str(mirror), data_dir=tmp_path)


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_cut_download_is_kept_and_continued(tiny: DatasetSpec, tmp_path: Path, *, has_ranges: bool) -> None:
    """A cut download is never used and the next fetch asks for the rest; a server may answer with the whole file."""
    with serving({"/tiny/raw.json.gz": PACKED}, cut_first_at=40, has_ranges=has_ranges) as (url, ranges):
        with pytest.raises(DatasetError, match="kept and continued"):
            fetching.fetch(tiny, mirror=url, data_dir=tmp_path)
        assert published.state(tiny, tmp_path).state == "absent"
        fetching.fetch(tiny, mirror=url, data_dir=tmp_path)

    assert ranges == [None, "bytes=40-"]
    assert published.state(tiny, tmp_path).state == "present"


def test_two_halves_of_different_files_are_refused(tiny: DatasetSpec, tmp_path: Path) -> None:
    """A file that changed between the cut and the rest is not used, is discarded, and does not stand in the way."""
    other = bytes(reversed(PACKED))
    with serving({"/tiny/raw.json.gz": other}, cut_first_at=40) as (url, _), pytest.raises(DatasetError):
        fetching.fetch(tiny, mirror=url, data_dir=tmp_path)
    with serving({"/tiny/raw.json.gz": PACKED}) as (url, ranges):
        with pytest.raises(DatasetError, match="not the pinned file"):
            fetching.fetch(tiny, mirror=url, data_dir=tmp_path)
        assert published.state(tiny, tmp_path).state == "absent"
        fetching.fetch(tiny, mirror=url, data_dir=tmp_path)

    assert ranges == ["bytes=40-", None]
    assert published.state(tiny, tmp_path).state == "present"


def test_offline_is_one_clear_line(tiny: DatasetSpec, tmp_path: Path) -> None:
    """Without a network the message names the URL and the way out."""
    with pytest.raises(DatasetError, match=r"cannot be reached .* --mirror") as refused:
        fetching.fetch(tiny, data_dir=tmp_path)

    assert "\n" not in str(refused.value)


def _without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(1000):
        connection.sendall(bytes(65536))


def _announced(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3000000000\r\n\r\nx")
    connection.recv(1)


def _byte_by_byte(head: bytes) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.05)

    return send


@pytest.mark.parametrize(
    ("answer", "words", "is_kept"),
    [
        (_without_end, "more than 1000000 bytes: this is another file", False),
        (_announced, "more than 1000000 bytes: this is another file", False),
        (_byte_by_byte(b"HTTP/1.1 200 OK\r\n\r\n"), "it is too slow", True),
        (_byte_by_byte(b"HTTP/1.1 200 OK\r\nx: "), "it is too slow", False),
        (lambda connection: connection.sendall(b"HTTP/1.1 416 No\r\ncontent-length: 0\r\n\r\n"), "answered 416", False),
        (lambda connection: connection.sendall(b"\x1b[31m\r\n\r\n"), "cannot be reached or broke off", False),
    ],
)
def test_a_mirror_may_send_what_it_likes(
    tiny: DatasetSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[socket.socket], None],
    words: str,
    is_kept: bool,
) -> None:
    """It costs one line, at most the largest file's size and a minute without progress; nothing of it is used."""
    monkeypatch.setattr(fetching, "LARGEST_BYTES", 1_000_000)
    if words == "it is too slow":  # the others are never that slow, however busy the machine
        monkeypatch.setattr(fetching, "ANSWER_SECONDS", 1.0)
        monkeypatch.setattr(fetching, "PIECE_SECONDS", 1.0)
    with answering(answer) as url, pytest.raises(DatasetError, match=words) as refused:
        fetching.fetch(tiny, mirror=url, data_dir=tmp_path)
    assert "\n" not in str(refused.value)
    parts = list(tmp_path.rglob("*.part"))
    assert bool(parts) is is_kept
    assert all(part.stat().st_size < 1_000_000 for part in parts)
    assert published.state(tiny, tmp_path).state == "absent"


@pytest.mark.parametrize("mirror", ["http://[::1", "http://127.0.0.1:99999", "http://"])
def test_a_mirror_without_a_valid_url_costs_one_line(tiny: DatasetSpec, tmp_path: Path, mirror: str) -> None:
    """An address that cannot be asked is named, without a traceback."""
    with pytest.raises(DatasetError, match="is not a valid URL") as refused:
        fetching.fetch(tiny, mirror=mirror, data_dir=tmp_path)
    assert "\n" not in str(refused.value)


def test_a_file_that_unpacks_to_too_much_is_refused(
    tiny: DatasetSpec, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds for files of a mirror too, packed and unpacked."""
    for limit, words in ((len(RAW) - 1, "unpacks to more than"), (10, "has more than 10 bytes")):
        monkeypatch.setattr(fetching, "LARGEST_BYTES", limit)
        monkeypatch.setattr(by_hand, "LARGEST_BYTES", 10 if limit == 10 else 1000)
        with pytest.raises(DatasetError, match=words):
            fetching.fetch(tiny, mirror=str(mirror), data_dir=tmp_path)


def test_a_damaged_cache_is_never_used(tiny: DatasetSpec, mirror: Path, tmp_path: Path) -> None:
    """Content that changed after fetching is refused at load with both hashes, and fetched anew on demand."""
    path = fetching.fetch(tiny, mirror=str(mirror), data_dir=tmp_path)
    path.write_bytes(path.read_bytes().replace(b"dry", b"wet"))

    with pytest.raises(DatasetError, match=f"expected {CONTENT}, found "):
        published.load(tiny, tmp_path)
    assert published.state(tiny, tmp_path).state == "damaged"
    fetching.fetch(tiny, mirror=str(mirror), data_dir=tmp_path)
    assert published.state(tiny, tmp_path).state == "present"


def test_embedded_items_are_verified_too() -> None:
    """Items of this software that are not the pinned ones are refused."""
    with pytest.raises(DatasetError, match=f"the embedded items differ: expected {'0' * 64}"):
        published.load_embedded("stereoset", "0" * 64)


class TestForms:
    """Packed, plain, tables, and what cannot be read."""

    def test_a_mirror_may_hold_the_upstream_file_itself(self, tiny: DatasetSpec, tmp_path: Path) -> None:
        """A file that a user got from its authors is recognised by the upstream's own id."""
        (tmp_path / "own" / "tiny").mkdir(parents=True)
        (tmp_path / "own" / "tiny" / "raw.json").write_bytes(RAW)
        fetching.fetch(tiny, mirror=str(tmp_path / "own"), data_dir=tmp_path)

        assert published.state(tiny, tmp_path).state == "present"

    def test_what_may_not_be_downloaded_says_where_to_get_it(self, tiny: DatasetSpec, tmp_path: Path) -> None:
        """Without a URL the message names the origin, the place to put the file and the command."""
        known = replace(at(tiny, None), by_hand="https://example.org/tiny")
        with pytest.raises(DatasetError) as refused:
            fetching.fetch(known, data_dir=tmp_path)

        assert "get it from https://example.org/tiny, and run" in str(refused.value)
        assert "`biasgate datasets fetch tiny --mirror FILE` with the file you got, raw.json or an" in str(
            refused.value
        )

    def test_an_upstream_file_without_any_id_is_never_accepted(self, tiny: DatasetSpec, tmp_path: Path) -> None:
        """What cannot be verified is not used, and nothing of it is kept."""
        with serving({"/raw.json": RAW}) as (url, _):
            known = replace(tiny, files=(replace(tiny.files[0], url=f"{url}/raw.json", git_blob=None),))
            with pytest.raises(DatasetError, match="cannot be verified"):
                fetching.fetch(known, data_dir=tmp_path)

        assert list((tmp_path / "datasets" / "tiny").iterdir()) == []

    def test_both_upstream_ids_must_agree(self, tiny: DatasetSpec, tmp_path: Path) -> None:
        """With a git blob id and a sha256 pinned, one that differs is enough to refuse."""
        with serving({"/raw.json": RAW}) as (url, _):
            known = replace(tiny, files=(replace(tiny.files[0], url=f"{url}/raw.json", sha256="0" * 64),))
            with pytest.raises(DatasetError, match=f"expected {'0' * 64}, found {hashlib.sha256(RAW).hexdigest()}"):
                fetching.fetch(known, data_dir=tmp_path)

    def test_a_packed_upstream_file_is_unpacked(self, tiny: DatasetSpec, tmp_path: Path) -> None:
        """The pinned id is of the file as it is stored there."""
        packed = replace(tiny.files[0], git_blob=None, sha256=hashlib.sha256(PACKED).hexdigest())
        with serving({"/raw.json.gz": PACKED}) as (url, _):
            known = replace(tiny, files=(replace(packed, url=f"{url}/raw.json.gz"),))
            fetching.fetch(known, data_dir=tmp_path)

        assert published.state(tiny, tmp_path).state == "present"

    def test_csv_rows(self) -> None:
        """Quoted separators and lines are read; a row of another length is refused."""
        assert csv_rows(b'a,b\n"x, y","1\n2"\n') == [{"a": "x, y", "b": "1\n2"}]
        assert csv_rows(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n") == [{"a": "1", "b": "2"}]
        assert csv_rows(b"a\tb\n1\t2\n", delimiter="\t") == [{"a": "1", "b": "2"}]
        with pytest.raises(ValueError, match="shorter"):
            csv_rows(b"a,b\n1\n")


WORDS, TABLE = b"dry\nwet\n", b"id,text\n1,A day\n"


class TestSeveralFiles:
    """A data set of two files is used only as a whole."""

    @pytest.fixture
    def pair(self, tiny: DatasetSpec) -> DatasetSpec:
        def file(name: str, content: bytes) -> SourceFile:
            return SourceFile(
                url=f"http://127.0.0.1:1/{name}",
                git_blob=fetching.git_blob_id(content),
                mirror_path=f"tiny/{name}.gz",
                mirror_sha256=hashlib.sha256(gzip.compress(content, mtime=0)).hexdigest(),
            )

        def both(files: Mapping[str, bytes]) -> Any:
            return {"words": files["words.txt"].decode().split(), "rows": csv_rows(files["table.csv"])}

        content = {"words": ["dry", "wet"], "rows": [{"id": "1", "text": "A day"}]}
        return replace(
            tiny,
            files=(file("words.txt", WORDS), file("table.csv", TABLE)),
            content_sha256=content_sha256(content),
            normalise=both,
        )

    def served(self, pair: DatasetSpec, url: str) -> DatasetSpec:
        return replace(pair, files=tuple(replace(file, url=f"{url}/{file.key}") for file in pair.files))

    def test_all_files_make_one_content(self, pair: DatasetSpec, tmp_path: Path) -> None:
        """Text and table become one verified content; no part is left."""
        with serving({"/words.txt": WORDS, "/table.csv": TABLE}) as (url, ranges):
            path = fetching.fetch(self.served(pair, url), data_dir=tmp_path)

        assert published.load(pair, tmp_path)["rows"] == [{"id": "1", "text": "A day"}]
        assert [child.name for child in path.parent.iterdir()] == ["content.json"]
        assert ranges == [None, None]

    def test_a_missing_file_leaves_nothing_to_use_and_costs_only_itself(
        self, pair: DatasetSpec, tmp_path: Path
    ) -> None:
        """The verified first file waits for the second, is not asked for again, and is never used alone."""
        with serving({"/words.txt": WORDS}) as (url, _), pytest.raises(DatasetError, match="answered 404"):
            fetching.fetch(self.served(pair, url), data_dir=tmp_path)
        assert published.state(pair, tmp_path).state == "absent"
        with serving({"/table.csv": TABLE}) as (url, _):
            fetching.fetch(self.served(pair, url), data_dir=tmp_path)

        assert published.state(pair, tmp_path).state == "present"

    def test_a_wrong_second_file_is_refused(self, pair: DatasetSpec, tmp_path: Path) -> None:
        """Only the wrong file is discarded, and nothing is used."""
        with serving({"/words.txt": WORDS, "/table.csv": TABLE + b"2,B\n"}) as (url, _):
            known = self.served(pair, url)
            with pytest.raises(DatasetError, match=r"table\.csv: not the pinned file"):
                fetching.fetch(known, data_dir=tmp_path)

        kept = [child.name for child in (tmp_path / "datasets" / "tiny").iterdir()]
        assert kept == ["upstream-words.txt.part"]

    def test_a_mirror_without_one_file_is_refused(self, pair: DatasetSpec, tmp_path: Path) -> None:
        """An incomplete mirror is named by the file it lacks."""
        (tmp_path / "m" / "tiny").mkdir(parents=True)
        (tmp_path / "m" / "tiny" / "words.txt.gz").write_bytes(gzip.compress(WORDS, mtime=0))
        with pytest.raises(DatasetError, match=r"the mirror has no .*table\.csv\.gz"):
            fetching.fetch(pair, mirror=str(tmp_path / "m"), data_dir=tmp_path)

        assert published.state(pair, tmp_path).state == "absent"
