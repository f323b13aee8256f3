"""The form of a bundle: a tar that can be written in one way only; reading compares every header with it (ADR 18)."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.errors import BenchmarkError

ATTESTATION = "attestation.json"
"""The last member; all others stand before it by name."""
MAX_MEMBERS = 1000
MAX_SIZE = 8**11 - 1
"""Bytes of a member: what a header has room for."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,31})?")
_BLOCK = 512
_END = bytes(2 * _BLOCK)
_PIECE = 1 << 20


class ArchiveError(BenchmarkError):
    """Raised for a file that is not a bundle, or not in the only form that a bundle has."""


class Member(NamedTuple):
    """One file of a bundle, and where its content lies."""

    name: str
    size: int
    sha256: str
    offset: int


class Writer:
    """Writes a bundle, member by member, in order."""

    def __init__(self, file: IO[bytes]) -> None:
        """`file`: open for writing, at its beginning."""
        self._file = file
        self._offset = 0
        self.members: list[Member] = []

    def add(self, name: str, content: IO[bytes], size: int) -> None:
        """Copies `size` bytes. Raises BenchmarkError where there are fewer or more, or for what no bundle can hold."""
        if not is_name(name) or (self.members and not _follows(self.members[-1].name, name)):
            raise ValueError(f"{name!r} cannot stand here in a bundle")
        if size > MAX_SIZE or len(self.members) == MAX_MEMBERS:
            raise BenchmarkError(f"{name}: a bundle has no room for it: {MAX_MEMBERS} files of up to 8 GiB each")
        self._file.write(_header(name, size))
        digest, n_copied = hashlib.sha256(), 0
        for piece in _pieces(content, size):
            digest.update(piece)
            n_copied += self._file.write(piece)
        if n_copied < size or content.read(1):
            raise BenchmarkError(f"{name}: changed while it was read: wait until it is written")
        self._file.write(bytes(-size % _BLOCK))
        self.members.append(Member(name, size, digest.hexdigest(), self._offset + _BLOCK))
        self._offset += _BLOCK + size + -size % _BLOCK

    def close(self) -> None:
        self._file.write(_END)


class Bundle:
    """A bundle that is read. Nothing of its content is held in memory."""

    def __init__(self, path: Path) -> None:
        """Opens a bundle and takes the sha256 of every member. Raises ArchiveError."""
        try:
            if not path.is_file():
                raise ArchiveError(f"{path}: no such file")
            self._file = path.open("rb")
            self._size = os.fstat(self._file.fileno()).st_size
        except OSError as exc:
            raise ArchiveError(f"{path}: cannot be read: {exc.strerror}") from exc
        try:
            self.members = {member.name: member for member in _members(self._file, self._size)}
        except ArchiveError as exc:
            self._file.close()
            raise ArchiveError(f"{path}: {exc}") from None

    def close(self) -> None:
        self._file.close()

    def pieces(self, name: str) -> Iterator[bytes]:
        member = self.members[name]
        self._file.seek(member.offset)
        yield from _pieces(self._file, member.size)

    def content(self, name: str, *, most: int) -> bytes:
        """The whole of a small member. Raises ArchiveError where it is larger than `most` bytes."""
        if self.members[name].size > most:
            raise ArchiveError(f"{name}: {self.members[name].size} bytes, more than the {most} that it may have")
        return b"".join(self.pieces(name))


def is_name(name: str) -> bool:
    """Returns whether a member may have this name: ASCII letters, digits and `_.-`, in at most one folder."""
    return _NAME.fullmatch(name) is not None


def _follows(before: str, name: str) -> bool:
    return before != ATTESTATION and (name == ATTESTATION or before < name)


def _members(file: IO[bytes], size: int) -> Iterator[Member]:
    offset, before = 0, ""
    for _ in range(MAX_MEMBERS):
        head = file.read(_BLOCK)
        if head == _END[:_BLOCK]:
            if file.read(_BLOCK + 1) != _END[:_BLOCK]:
                raise ArchiveError(f"byte {offset + _BLOCK}: a bundle ends here, and this file does not")
            return
        name, length = _read_header(head, offset)
        if not _follows(before, name):
            raise ArchiveError(f"byte {offset}: {name} stands out of order or twice")
        if offset + _BLOCK + length > size:
            raise ArchiveError(f"{name}: the file ends within it")
        digest = hashlib.sha256()
        for piece in _pieces(file, length):
            digest.update(piece)
        member = Member(name, length, digest.hexdigest(), offset + _BLOCK)
        if file.read(-length % _BLOCK) != bytes(-length % _BLOCK):
            raise ArchiveError(f"{name}: the room after it is not empty, or the file ends there")
        offset, before = offset + _BLOCK + length + -length % _BLOCK, name
        yield member
    raise ArchiveError(f"holds more than {MAX_MEMBERS} files, which no bundle does")


def _pieces(file: IO[bytes], left: int) -> Iterator[bytes]:
    while left and (piece := file.read(min(left, _PIECE))):
        yield piece
        left -= len(piece)


def _read_header(head: bytes, offset: int) -> tuple[str, int]:
    if len(head) == _BLOCK:
        name, digits = head[:100].rstrip(b"\0").decode("ascii", "replace"), head[124:135]
        if is_name(name) and re.fullmatch(rb"[0-7]{11}", digits) and _header(name, int(digits, 8)) == head:
            return name, int(digits, 8)
    if not offset:
        raise ArchiveError("no bundle, or its beginning was changed (one that was compressed must be unpacked first)")
    raise ArchiveError(f"byte {offset}: " + ("the file ends early" if len(head) < _BLOCK else "no file of a bundle"))


def _header(name: str, size: int) -> bytes:
    """POSIX ustar, 512 bytes: mode 0644, owner and time 0. Our own, so that no version of Python changes a byte."""
    number = b"0000000\0"
    before = name.encode().ljust(100, b"\0") + b"0000644\0" + 2 * number + b"%011o\0" % size + b"%011o\0" % 0
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(64 + 16 + 167)
    return before + b"%06o\0 " % sum(before + 8 * b" " + after) + after
