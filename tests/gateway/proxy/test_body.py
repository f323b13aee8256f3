"""Request bodies are read for model, stream and priority, and changed in nothing else."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.body import RequestBody, read_body, with_model, without_member
from gateway.proxy.refusals import Refusal

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["model", "priority", "messages", "a", 'quo"te', "back\\slash", "é", "{", ","])
OBJECTS = st.dictionaries(KEYS, JSON_VALUES, max_size=6)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"separators": (" ,  ", "\t: ")}])


def dump(value: Any, layout: dict[str, Any], *, is_ascii: bool) -> bytes:
    return json.dumps(value, ensure_ascii=is_ascii, **layout).encode("utf-8", "surrogatepass")


def relayed(body: bytes, aliases: Mapping[str, str] | None = None, *, may_set_priority: bool = False) -> RequestBody:
    """What is read of a body that must not be refused."""
    result = read_body(body, aliases or {}, may_set_priority=may_set_priority)
    assert isinstance(result, RequestBody)
    return result


class TestModel:
    @given(OBJECTS, LAYOUTS, st.booleans(), st.text(st.characters(codec="utf-8")))
    def test_only_the_model_changes(
        self, value: dict[str, Any], layout: dict[str, Any], ascii_: bool, name: str
    ) -> None:
        """Whatever the object, its keys, strings and white space, only the outermost model becomes another."""
        body = dump(value | {"model": "old"}, layout, is_ascii=ascii_)

        assert json.loads(with_model(body, name)) == value | {"model": name}

    def test_every_other_byte_stays(self) -> None:
        """Numbers, spacing, order and nested models are left as the client wrote them."""
        body = (
            b' { "x" : 1.0e0,"meta":{"model":"alias"}, "model" :\t"alias" , "t":"\\u00e9 \\"model\\": \\"alias\\"" }\n'
        )

        result = read_body(body, {"alias": "real"}, may_set_priority=False)

        assert result == RequestBody(body.replace(b'\t"alias"', b'\t"real"'), "alias", "real", False)

    def test_repeated_and_escaped_keys(self) -> None:
        """Parsers differ on which of two equal keys wins, so all of them are set."""
        body = b'{"model":"alias","mod\\u0065l":"alias"}'

        assert read_body(body, {"alias": "r"}, may_set_priority=False) == RequestBody(
            b'{"model":"r","mod\\u0065l":"r"}', "alias", "r", False
        )

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not json",
            b"[1]",
            b'"model"',
            b'{"model": 3}',
            b'{"stream": tru',
            b"\x00\xff",
            b'{"messages": []}',
            b"{}",
        ],
    )
    def test_bodies_without_a_model_are_untouched(self, body: bytes) -> None:
        """What is not an object with a model string is relayed as it is."""
        assert read_body(body, {"a": "b"}, may_set_priority=False) == RequestBody(body)

    def test_stream_is_read(self) -> None:
        """Only true means streaming."""
        values = (b"true", b"false", b"1", b"null")
        assert [relayed(b'{"model":"m","stream":%b}' % value).stream for value in values] == [True, False, False, False]


class TestPriority:
    @given(OBJECTS, LAYOUTS)
    def test_only_the_priority_goes(self, value: dict[str, Any], layout: dict[str, Any]) -> None:
        """Whatever stands before and after it, the rest is the same object."""
        body = dump(value, layout, is_ascii=True)

        result = relayed(body)

        assert json.loads(result.content) == {key: item for key, item in value.items() if key != "priority"}
        if "priority" not in value:
            assert result.content == body

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b'{"priority":1}', b"{}"),
            (b'{ "priority" : 1 , "a": 2}', b'{ "a": 2}'),
            (b'{"a": 2 , "priority":1 }', b'{"a": 2 }'),
            (b'{"priority":1,"priority":2,"a":{"priority":3},"priority":4}', b'{"a":{"priority":3}}'),
            (b'{"pr\\u0069ority":-1,"a":1}', b'{"a":1}'),
        ],
    )
    def test_where_it_stands(self, body: bytes, expected: bytes) -> None:
        """First, last, alone, repeated or escaped: it goes, and what is nested stays."""
        assert without_member(body, "priority") == expected

    def test_a_key_that_may(self) -> None:
        """A client that may set priority keeps it."""
        body = b'{"model":"m","priority":1}'

        assert read_body(body, {}, may_set_priority=True) == RequestBody(body, "m", "m", False)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"model":"m","temperature":NaN,"priority":-9}',
            b'\xef\xbb\xbf{"model":"m","priority":-9}',
            '{"model":"m","priority":-9}'.encode("utf-16"),
        ],
    )
    def test_lenient_json_smuggles_nothing(self, body: bytes) -> None:
        """A body that only a lenient parser reads cannot carry a priority past the gateway."""
        result = read_body(body, {}, may_set_priority=False)

        assert isinstance(result, Refusal)
        assert (result.status, result.code) == (400, "invalid_body")

    @pytest.mark.parametrize("opening", [b"[", b'{"a":'])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_nesting_smuggles_nothing(self, opening: bytes, encoding: str) -> None:
        """How deep a reader goes depends on its version: what is too deep for ours may be read by the upstream's."""
        depth = 5_000
        deep = opening * depth + b"1" + (b"]" if opening == b"[" else b"}") * depth
        body = (b'{"model":"m","metadata":%b,"priority":-9}' % deep).decode().encode(encoding)

        result = read_body(body, {}, may_set_priority=False)
        if isinstance(result, RequestBody):  # a reader that goes as deep as this
            assert b"priority" not in result.content.replace(b"\0", b"")
        else:
            assert (result.status, result.code, result.param) == (400, "invalid_body", "priority")
        assert relayed(body, may_set_priority=True).content == body

    def test_lenient_json_is_relayed_otherwise(self) -> None:
        """Without a priority such a body passes, and its model still chooses the upstream."""
        body = b'{"model":"m","temperature":NaN}'

        assert read_body(body, {}, may_set_priority=False) == RequestBody(body, "m", "m", False)


@pytest.mark.parametrize("body", [b'{"model": "\xef\xbb["}', b'{"model": "alias", "prior\x97ty": 3}'])
def test_bytes_that_are_no_text(body: bytes) -> None:
    """Invalid UTF-8 in a value or a key is the upstream's to refuse, and no error of ours."""
    assert relayed(body, {"alias": "real"}).content == body.replace(b"alias", b"real")


def test_priority_beside_bytes_that_are_no_text() -> None:
    """A key that is no UTF-8 does not carry a priority past us."""
    result = read_body(b'{"prior\x97ty": 3, "priority": 1}', {}, may_set_priority=False)

    assert result == RequestBody(b'{"prior\x97ty": 3}')
