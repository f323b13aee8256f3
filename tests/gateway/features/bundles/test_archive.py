"""The one form of a bundle's archive: others can read it, and nothing else is read."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from gateway.features.bundles.archive import MAX_MEMBERS, ArchiveError, Bundle, Writer
from tests.support.benchmarks.bundled import bundle


def tar(path: Path, *members: tarfile.TarInfo | str, form: int = tarfile.USTAR_FORMAT) -> Path:
    """An archive by the standard library, with the fixed fields of a bundle where a name is given."""
    with tarfile.open(path, "w", format=form) as archive:
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    return path


def complaint(path: Path) -> str:
    with pytest.raises(ArchiveError) as raised:
        Bundle(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_tar_reads_it(tmp_path: Path) -> None:
    """tar and the standard library unpack a bundle; its files are in order, the attestation last."""
    path = bundle(tmp_path / "b", run_dot_json=b"x" * 1000, items_dot_jsonl=b"")
    names = ["clauses.md", "items.jsonl", "result.json", "run.json", "versions.json", "attestation.json"]

    with tarfile.open(path) as archive:
        assert archive.getnames() == names
        assert archive.extractfile("run.json").read() == b"x" * 1000  # type: ignore[union-attr]  # a plain file
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, check=True, text=True).stdout
    assert listed.split() == names


def member(name: str, **fields: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size = 3
    for field, value in fields.items():
        setattr(found, field, value)
    return found


@pytest.mark.parametrize(
    "strange",
    [
        member("../../etc/passwd"),
        member("/etc/passwd"),
        member("a/../b"),
        member("a/b/c"),
        member(".hidden"),
        member("a\x1b[31m"),
        member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0),
        member("link", type=tarfile.LNKTYPE, linkname="a", size=0),
        member("device", type=tarfile.CHRTYPE, size=0),
        member("pipe", type=tarfile.FIFOTYPE, size=0),
        member("folder", type=tarfile.DIRTYPE, size=0),
        member("sparse", type=tarfile.GNUTYPE_SPARSE),
        member("x" * 65),
        member("owned", uid=1),
        member("dated", mtime=1),
        member("programme", mode=0o755),
        member("named", uname="root"),
    ],
    ids=lambda info: ascii(info.name)[1:12],
)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_only_plain_files_with_plain_names(tmp_path: Path, strange: tarfile.TarInfo, form: int) -> None:
    """Paths that lead out, links, devices, folders, long names and other owners are refused in any dialect of tar."""
    path = tar(tmp_path / "b", strange, form=form)
    assert "no bundle" in complaint(path)
    path.write_bytes(tarfile.TarInfo("A").tobuf(tarfile.USTAR_FORMAT) + path.read_bytes())
    assert "byte 512: no file of a bundle" in complaint(path)


def test_twice_or_out_of_order(tmp_path: Path) -> None:
    """A second file of one name, and any order but the one there is, are refused."""
    assert "a stands out of order or twice" in complaint(tar(tmp_path / "b", "a", "a"))
    assert "a stands out of order or twice" in complaint(tar(tmp_path / "b", "b", "a"))
    assert "b stands out of order or twice" in complaint(tar(tmp_path / "b", "attestation.json", "b"))


def test_too_many_files(tmp_path: Path) -> None:
    """What has more files than a bundle may have is given up."""
    path = tar(tmp_path / "b", *(f"f{number:06}" for number in range(MAX_MEMBERS + 1)))
    assert f"more than {MAX_MEMBERS} files" in complaint(path)


def test_a_size_that_is_not_there(tmp_path: Path) -> None:
    """A member that says 8 GiB in a file of a few bytes is refused before a byte of it is read."""
    info = tarfile.TarInfo("big")
    info.size = 8**11 - 1
    (tmp_path / "b").write_bytes(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    assert "big: the file ends within it" in complaint(tmp_path / "b")


def test_every_cut_is_seen(tmp_path: Path) -> None:
    """A bundle cut anywhere, or with anything after its end, is refused."""
    whole = bundle(tmp_path / "b").read_bytes()
    for end in range(0, len(whole), 97):
        (tmp_path / "c").write_bytes(whole[:end])
        complaint(tmp_path / "c")
    (tmp_path / "c").write_bytes(whole + b"\0")
    assert "this file does not" in complaint(tmp_path / "c")


def test_other_files(tmp_path: Path) -> None:
    """What is no bundle is said so: a folder, nothing, a compressed bundle, something endless."""
    assert "no such file" in complaint(tmp_path)
    assert "no such file" in complaint(tmp_path / "none")
    assert "no such file" in complaint(Path("/dev/zero"))
    (tmp_path / "b.gz").write_bytes(b"\x1f\x8b" + bytes(600))
    assert "compressed must be unpacked first" in complaint(tmp_path / "b.gz")


@pytest.mark.parametrize("size", [2, 4])
def test_a_file_that_changes_is_not_packed(size: int) -> None:
    """A file that turns out longer or shorter than it was when it was opened ends the bundle."""
    with pytest.raises(BenchmarkError, match="changed while it was read"):
        Writer(io.BytesIO()).add("a", io.BytesIO(b"abc"), size)
