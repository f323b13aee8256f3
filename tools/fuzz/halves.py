"""Target: halves of exchanges at a door (gateway/ingest), in any number, order and repetition.

Whatever comes, a body is read or refused in one line; it brings no exchange twice and no more than a body may have; and
the halves of an exchange make the same one in whatever order and how often they come, in one body or in several.
"""

import json
from collections.abc import Iterator
from unittest.mock import patch

import msgspec

from gateway.errors import RequestError
from gateway.features.ingest import pairs
from gateway.features.ingest.reading import read_objects
from gateway.features.ingest.received import Part, Sent, completed, merged
from tools.fuzz.target import Broken

N_IDS = 4
MOST_ENTRIES = 40
"""In place of the door's own bound, so that an input costs little."""


class Halves:
    """Of a first byte below 128 the rest are instructions, else it is a body as it comes.

    An instruction has two bytes: which exchange, which side and which form; and how often it is repeated.
    """

    seeds = (
        b"\0" + bytes([0, 1, 8, 1]),
        b"\0" + bytes([0, 9, 8, 9, 1, 9, 9, 9]),
        b"\0" + bytes([8, 1, 0, 1, 8, 2, 0, 2, 17, 1, 25, 1]),
        b"\1" + bytes([0, 20, 8, 20]),
        b"\0" + bytes([0, 41]),
        b'\xff{"id":"a","request":{}}\n{"id":"a","response":{}}',
        b'\xff[{"id":"a","request":{}},{"id":"a","response":{}}]',
        b'\xff{"id":"a","request":{}}\r\n\r\n{"id":"a","request":{"n":NaN}}\n[',
    )
    tokens = (
        b'{"id":"a"', b'"request":', b'"response":', b"{}", b"[", b"]", b"\n", b"\r", b",", b"\0", b"\xff",
        b"x\n" * 50, b"[{}" + b",{}" * 45, b'"\\ud800"', bytes([0, 40]),
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        if data[:1] > b"\x7f":
            self._read(data[1:])
            return
        halves = [*_halves(data[1:])]
        body = b"[%b]" % b",".join(halves) if data[:1] == b"\1" else b"\n".join(halves)
        sent = self._read(body)
        if sent is None:
            if len(halves) <= MOST_ENTRIES and halves:
                raise Broken(f"{len(halves)} halves are refused")
            return
        if len(halves) > MOST_ENTRIES:
            raise Broken(f"{len(halves)} halves are taken")
        apart = [part for half in halves for part in _parts(half)]
        together = _by_id([*sent.parts])
        for parts in (apart, apart[::-1]):
            if _sides(_by_id(parts)) != _sides(together):
                raise Broken(f"{together} in one body, {_by_id(parts)} in several")

    def _read(self, body: bytes) -> Sent | None:
        try:
            with patch("gateway.features.ingest.reading.MOST_ENTRIES", MOST_ENTRIES):
                sent = read_objects(body, lambda objects: pairs.read(objects, "sender"))
        except RequestError as exc:
            if "\n" in str(exc) or not str(exc):
                raise Broken(f"refused with {str(exc)!r}") from exc
            return None
        ids = [part.id for part in sent.parts]
        if len(ids) != len(set(ids)):
            raise Broken("an exchange has two parts")
        if len(ids) + len(sent.whole) > MOST_ENTRIES:
            raise Broken(f"{len(ids) + len(sent.whole)} exchanges in one body")
        for part in sent.parts:
            if msgspec.json.decode(msgspec.json.encode(part), type=Part) != part:
                raise Broken("a part that cannot be stored")
        return sent

    def close(self) -> None:
        """Nothing runs."""


def _halves(program: bytes) -> Iterator[bytes]:
    n_left = MOST_ENTRIES + 2
    for what, times in zip(program[::2], program[1::2], strict=False):
        side = "response" if what & 8 else "request"
        half = json.dumps({"id": str(what % N_IDS), side: {"messages": [], "n": 0}}).encode()
        for _ in range(min(times, n_left)):
            n_left -= 1
            yield half


def _parts(half: bytes) -> list[Part]:
    return pairs.read([json.loads(half)], "sender").parts


def _by_id(parts: list[Part]) -> dict[str, Part]:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.id, []).append(part)
    return {key: merged(some) for key, some in found.items()}


def _sides(parts: dict[str, Part]) -> dict[str, tuple[bytes, bytes] | tuple[bool, bool]]:
    """What auditors would read of each."""
    return {
        key: (completed(part).request, completed(part).response)
        if part.is_whole
        else (part.request is not None, part.response is not None)
        for key, part in parts.items()
    }
