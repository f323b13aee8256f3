"""Recognising a head that came before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.head_cache import MAX_KNOWN_BYTES, CachedHead, split_head

BEFORE = b"POST /v1/x HTTP/1.1\r\nhost: a\r\nContent-Length: "
BEHIND = b"\r\naccept: */*\r\n\r\n"


def known() -> CachedHead:
    split = split_head(BEFORE + b"2" + BEHIND + b"ab", 2)
    assert split == (BEFORE, BEHIND)
    return CachedHead(*split)


class TestSplitHead:
    @pytest.mark.parametrize(
        ("packet", "content_length"),
        [
            (BEFORE + b"2" + BEHIND + b"abc", 2),  # more than one message
            (BEFORE + b"2" + BEHIND + b"a", 2),  # less than one
            (BEFORE + b"2" + BEHIND + b"ab", 3),  # not what the parser read
            (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", 0),  # no length
            (b"GET / HTTP/1.1\r\n", 0),  # no end
            (b"POST / HTTP/1.1\r\nx: 1\r\n content-length: 2\r\n\r\nab", 2),  # a folded line is no header
            (BEFORE + b"2\r\nx: " + b"y" * MAX_KNOWN_BYTES + BEHIND + b"ab", 2),  # long
        ],
    )
    def test_refuses_what_it_does_not_understand(self, packet: bytes, content_length: int) -> None:
        """Without agreement with the parser nothing is remembered."""
        assert split_head(packet, content_length) is None


class TestKnownHead:
    def test_finds_the_body(self) -> None:
        """The digits may change, in number too, and come again."""
        head = known()

        bodies = [b"ab", b"hello world", b"hello earth", b"", b"", b"ab"]
        assert [head.body_in(BEFORE + b"%d" % len(body) + BEHIND + body) for body in bodies] == bodies

    @pytest.mark.parametrize(
        "digits", [b"", b"+2", b"-2", b"2 ", b" 2", b"2,2", b"0x2", b"2_0", b"1234567890", b"\xb2"]
    )
    def test_only_digits_are_a_length(self, digits: bytes) -> None:
        """Whatever a lenient reader might take for a number goes to the parser."""
        assert known().body_in(BEFORE + digits + BEHIND + b"ab") is None

    @given(st.integers(0, len(BEFORE + b"2" + BEHIND) - 1), st.binary(min_size=1, max_size=1))
    def test_any_other_byte_is_another_head(self, position: int, byte: bytes) -> None:
        """A head that differs in one byte does not match; another digit is another length."""
        data = bytearray(BEFORE + b"2" + BEHIND + b"ab")
        data[position : position + 1] = byte

        is_same = bytes(data) == BEFORE + b"2" + BEHIND + b"ab"
        assert (known().body_in(bytes(data)) is not None) == is_same

    @given(st.integers(0, len(BEFORE + b"0" + BEHIND) - 1), st.booleans())
    def test_half_a_head_is_none(self, size: int, has_come_before: bool) -> None:
        """A head that was cut off anywhere waits for the parser, even with no body to wait for."""
        head, data = known(), BEFORE + b"0" + BEHIND
        if has_come_before:
            assert head.body_in(data) == b""

        assert head.body_in(data[:size]) is None

    @given(st.binary(max_size=5))
    def test_more_or_less_than_the_body_is_none(self, body: bytes) -> None:
        """Half a body, or a second message behind the first, goes to the parser."""
        assert (known().body_in(BEFORE + b"2" + BEHIND + body) is not None) == (len(body) == 2)
