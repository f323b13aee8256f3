"""Recognising packets of whole chunks, judged by llhttp."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.proxy.connection import are_complete_chunks, ends_between_chunks

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Heard:
    """Whether llhttp found the message complete."""

    def __init__(self) -> None:
        self.is_complete = False

    def on_message_complete(self) -> None:
        self.is_complete = True


def is_message(*packets: bytes) -> bool:
    """Whether they are one response to its end, and neither less nor more."""
    heard = Heard()
    parser = httptools.HttpResponseParser(heard)
    for packet in packets:
        if heard.is_complete:
            return False
        parser.feed_data(packet)
    return heard.is_complete


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4)


class TestAreWholeChunks:
    @given(CHUNKS)
    def test_any_bytes_in_any_number_of_chunks(self, pieces: list[bytes]) -> None:
        """Whatever they hold, line ends and sizes of chunks included."""
        assert are_complete_chunks(b"".join(map(chunk, pieces)))

    def test_size_in_any_writing(self) -> None:
        """Upper case and leading zeros are numbers too."""
        assert are_complete_chunks(b"0000000A\r\n0123456789\r\n")

    @pytest.mark.parametrize(
        "packet",
        [
            b"",
            b"0\r\n\r\n",  # the last one
            chunk(b"a") + b"0\r\n\r\n",
            b"0\r\nx-late: 1\r\n\r\n",
            b"1;a=b\r\na\r\n",
            b"1 \r\na\r\n",
            b" 1\r\na\r\n",
            b"+1\r\na\r\n",
            b"0x1\r\na\r\n",
            b"1_0\r\n0123456789abcdef\r\n",
            b"-1\r\na\r\n",
            b"1\na\n",
            b"1\r\na\n\n",
            b"1\r\nab\r\n",
            b"000000001\r\na\r\n",  # nine digits: as good as none
            b"\xb9\r\na\r\n",
            b"\r\na\r\n",
        ],
    )
    def test_leaves_the_rest_to_the_parser(self, packet: bytes) -> None:
        """Whatever is not plainly whole chunks."""
        assert not are_complete_chunks(packet)

    @given(CHUNKS, st.data())
    def test_part_of_a_chunk_is_none(self, pieces: list[bytes], data: st.DataObject) -> None:
        """Cut anywhere but between two chunks."""
        framed = list(map(chunk, pieces))
        ends = {sum(map(len, framed[:count])) for count in range(len(framed) + 1)}
        packet = b"".join(framed)
        cut = data.draw(st.integers(0, len(packet)).filter(lambda place: place not in ends))

        assert not are_complete_chunks(packet[:cut])

    @given(st.text("01aF\r\n; x", max_size=12).map(str.encode) | st.binary(max_size=12))
    @example(b"1\r\n\r\r\n")
    @example(b"2\r\n\r\n\r\n1\r\n0\r\n")
    def test_agrees_with_the_parser(self, packet: bytes) -> None:
        """Behind what is taken here, llhttp waits for a chunk's size."""
        if are_complete_chunks(packet):
            assert is_message(HEAD, packet, b"0\r\n\r\n")


class TestEndsBetweenChunks:
    @pytest.mark.parametrize("rest", [b"", chunk(b"a"), chunk(b"0\r\n\r\n") * 2])
    def test_whole(self, rest: bytes) -> None:
        """A head alone, and one with whole chunks."""
        assert ends_between_chunks(HEAD + rest)

    @pytest.mark.parametrize("rest", [b"1", b"1\r\n", b"1\r\na", b"1\r\na\r", b"1;a\r\na\r\n", HEAD])
    def test_not_known(self, rest: bytes) -> None:
        """A part of a chunk, an extension, a head behind a head that only informs."""
        assert not ends_between_chunks(HEAD + rest)

    def test_without_a_whole_head(self) -> None:
        """The rest of a head that came in two packets."""
        assert not ends_between_chunks(b"x: 1\r\n")
