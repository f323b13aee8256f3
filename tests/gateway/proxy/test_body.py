"""Request bodies are read for model, stream and priority, and changed in nothing else."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.body import LARGE_BYTES, MOST_VALUES, BodyLimit, RequestBody, read_body, with_priority
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

        assert json.loads(relayed(body, {"old": name}, may_set_priority=True).content) == value | {"model": name}

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
            b"\x00\xff",
            b"--boundary\r\n{",
            b"\0" * 5_000 + b"{",
            b'{"messages": []}',
            b"{}",
        ],
    )
    def test_bodies_without_a_model_are_untouched(self, body: bytes) -> None:
        """What is not an object with a model string is relayed as it is."""
        assert read_body(body, {"a": "b"}, may_set_priority=False) == RequestBody(body)


class TestPriority:
    @given(OBJECTS, LAYOUTS, st.integers(1, 99))
    def test_an_audit_gets_a_priority(self, value: dict[str, Any], layout: dict[str, Any], priority: int) -> None:
        """One only, whatever the body said; the rest stays."""
        content = relayed(dump(value, layout, is_ascii=True)).content

        changed = with_priority(content, priority)

        assert changed.count(b'"priority"') == content.count(b'"priority"') + 1
        assert json.loads(changed) == {"priority": priority} | json.loads(content)

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
        assert relayed(body).content == expected

    def test_a_key_that_may(self) -> None:
        """A client that may set priority keeps it."""
        body = b'{"model":"m","priority":1}'

        assert read_body(body, {}, may_set_priority=True) == RequestBody(body, "m", "m", False)

    @pytest.mark.parametrize("opening", [b"[", b'{"a":'])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_nesting_smuggles_nothing(self, opening: bytes, encoding: str) -> None:
        """How deep a reader goes depends on its version: what is too deep for ours may be read by the upstream's."""
        depth = 100_000
        deep = opening * depth + b"1" + (b"]" if opening == b"[" else b"}") * depth
        body = (b'{"model":"m","metadata":%b,"priority":-9}' % deep).decode().encode(encoding)

        for may_set_priority in (False, True):
            result = read_body(body, {}, may_set_priority=may_set_priority)
            assert isinstance(result, Refusal)
            assert (result.status, result.code) == (400, "invalid_body")

    @pytest.mark.parametrize("may_set_priority", [False, True])
    @pytest.mark.parametrize(
        "body",
        [
            b'{"model":"m","temperature":NaN}',
            b' {"model":"m","messages":[Infinity]}',
            b'\xef\xbb\xbf {"model":"m"}',
            '{"model":"m"}'.encode("utf-16"),
            '{"model":"m"}'.encode("utf-16-be"),
            '\ufeff{"model":"m"}'.encode("utf-32-be"),
            b" " * 5_000 + b'{"model":"m","n":NaN}',
            (" " * 5_000 + '{"model":"m"}').encode("utf-16"),
            b'{"model":"m",}',
            b'{"model":"m" // the one',
            b'{"stream": tru',
            b'{"model": "\xef\xbb["}',
        ],
    )
    def test_what_may_be_an_object_to_another_reader_is_refused(self, body: bytes, may_set_priority: bool) -> None:
        """Nobody could audit it, and no two readers agree on it."""
        result = read_body(body, {}, may_set_priority=may_set_priority)

        assert isinstance(result, Refusal)
        assert (result.status, result.code) == (400, "invalid_body")
        assert result.message.startswith("the body is not valid JSON: ")


class TestSize:
    """No body takes long, whatever is in it; what would is refused."""

    @pytest.mark.parametrize("many", [b',"a":1', b',"priority":1', b',"model":"alias"'])
    def test_too_many_members_are_refused(self, many: bytes) -> None:
        """Where one of them must change; otherwise such a body passes."""
        body = b'{"model":"alias","model":"alias"%b}' % (many * 5_000)
        refused = [read_body(body, {"alias": "real"}, may_set_priority=True)]
        refused.append(read_body(b'{"priority":1' + body[1 + len(b'"model":"alias"') :], {}, may_set_priority=False))

        for result in refused:
            assert isinstance(result, Refusal)
            assert (result.status, result.code) == (400, "invalid_body")
            assert "more than 1000 members" in result.message
        assert relayed(body, may_set_priority=True).content == body

    @given(OBJECTS, LAYOUTS, st.booleans())
    def test_a_large_body_is_read_as_a_small_one(
        self, value: dict[str, Any], layout: dict[str, Any], may: bool
    ) -> None:
        """The way through the members finds and changes the same."""
        body = dump(value | {"model": "alias"}, layout, is_ascii=True)
        small = read_body(body, {"alias": "real"}, may_set_priority=may)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.proxy.body.LARGE_BYTES", 0)
            large = read_body(body, {"alias": "real"}, may_set_priority=may)

        assert large == small

    @pytest.mark.parametrize(
        "body",
        [
            *(b"{}", b" { } ", b'{"a":1}', b"[1]", b"x", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}'),
            *(
                b'{"a":1}x',
                b'{"a":1 "b":2}',
                b"{1:2}",
                b'{"a" 1}',
                b"{,}",
                b'{"a":1,,"b":2}',
                b'{"a":NaN}',
                b'{"a":\xff}',
            ),
            *(b'{"a":1} ', b'{"a":"b"} \n', b'{"%b":1}' % (b"k" * 300), b'{"%b" 1}' % (b"k" * 300), b'{"a":1]'),
            *(b'{"stream":true}', b'{"model":"a","model":"b"}', b'{"model":null,"stream":0}', b"\xef\xbb\xbf{}"),
        ],
    )
    def test_the_same_of_what_is_odd(self, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is no JSON is refused on either way, with its own words."""
        small = read_body(body, {}, may_set_priority=False)
        monkeypatch.setattr("gateway.proxy.body.LARGE_BYTES", 0)
        large = read_body(body, {}, may_set_priority=False)

        if isinstance(small, Refusal):
            assert isinstance(large, Refusal)
            assert (small.status, small.code) == (large.status, large.code)
        else:
            assert large == small

    def test_structural_characters_are_counted(self) -> None:
        """A large body of many small values is refused as it comes; one long text, or no JSON at all, never."""
        piece = b"[]," * 50_000
        limit, received = BodyLimit(100_000_000), b'{"x":[' + b" " * LARGE_BYTES
        refusals = list[Refusal | None]()
        while len(refusals) < 10:
            received += piece
            refusals.append(limit.refusal(received, piece))

        first = next(number for number, one in enumerate(refusals, 1) if one)
        assert first == MOST_VALUES // len(piece) + 1
        for beginning, rest in ((b"--x\r\n", b"[" * (MOST_VALUES + 1)), (b'{"x":"', b"words and words " * 1_000_000)):
            assert BodyLimit(100_000_000).refusal(beginning + rest, rest) is None
            assert (found := BodyLimit(100_000).refusal(beginning + rest, rest)) is not None
            assert "100000 bytes" in found.message


def test_bytes_that_are_no_text() -> None:
    """Invalid UTF-8 in a key is the upstream's to refuse, and does not carry a priority past us."""
    body = b'{"model": "alias", "prior\x97ty": 3}'
    assert relayed(body, {"alias": "real"}).content == body.replace(b"alias", b"real")
    result = read_body(b'{"prior\x97ty": 3, "priority": 1}', {}, may_set_priority=False)

    assert result == RequestBody(b'{"prior\x97ty": 3}')
