"""Reading JSON as lenient servers do, in time that is in proportion to the bytes."""

import contextlib
import json
from typing import Any

import pytest

from auditors.text.lenient_json import DEEPEST, read_json, read_piece, well_formed
from tests.support.processor_time import processor_seconds


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\\u00e9"]}', {"a": [1, 2.5, None, True, "é"]}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": Infinity, "b": 1e999}', {"a": float("inf"), "b": float("inf")}),
        (b'{"\\ud800": "\\udc00 \\ud83d\\ude00"}', {"\ufffd": "\ufffd \U0001f600"}),
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "\U0001f600"),
        (b'"\xff"', "\ufffd"),
        (b"\xef\xbb\xbf[1]", [1]),
        ('["é"]'.encode("utf-16-le"), ["é"]),
        (b"[NaN, 1%b]" % (b"0" * 200), [pytest.approx(float("nan"), nan_ok=True), 10**200]),
    ],
)
def test_what_lenient_readers_take(body: bytes, value: Any) -> None:
    """What Python's own reader takes is read, with text that can be encoded."""
    assert read_json(body) == value


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN', b"nope", b"[" * 5000, b'{"a":"\\', b"\x00", b"1 2"])
def test_what_nobody_reads(body: bytes) -> None:
    """What is no JSON to any reader is an error, however it begins."""
    with pytest.raises(ValueError, match=r"\w"):
        read_json(body)


def test_halves_of_a_character_wait_for_each_other() -> None:
    """Pieces keep their halves; together they are well-formed."""
    pieces = [read_piece(text) for text in ('{"a": "x\\ud83d"}', '{"a": "\\ude00"}')]
    assert well_formed(pieces[0]["a"] + pieces[1]["a"]) == "x\U0001f600"
    assert well_formed([{"a": pieces[0]["a"]}]) == [{"a": "x\ufffd"}]


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, 900, 3000])
def test_what_is_too_deep_is_left_out(levels: int) -> None:
    """The rest is read; brackets in strings are no depth."""
    deep = "[" * levels + '"]"' + "]" * levels
    quoted = r"[{\"" * 500
    value = read_json(f'{{"a": "{quoted}", "b": {deep}, "c": 1}}'.encode())
    assert (value["a"], value["c"]) == ('[{"' * 500, 1)
    assert json.dumps(value["b"]).count("[") == DEEPEST - 1


@pytest.mark.parametrize(
    ("start", "unit", "end"),
    [
        ("[", "[", ""),
        ("[NaN", ",[]", "]"),
        ("[NaN,", "[" * 200 + "]" * 200 + ",", "1]"),
        ('[NaN,"', '\\"', ""),
        ('[NaN,"', '["', ""),
        ("[NaN,", "9", "]"),
        ('[NaN,"', "\\ud800", '"]'),
    ],
)
def test_time_is_in_proportion(start: str, unit: str, end: str) -> None:
    """Eight times the bytes take no more than 24 times as long, whatever they are."""

    def seconds(size: int) -> float:
        body = (start + unit * (size // len(unit)) + end).encode()

        def read() -> None:
            with contextlib.suppress(ValueError):
                read_json(body)

        return processor_seconds(read)

    assert seconds(160_000) < 24 * seconds(20_000) + 0.02
