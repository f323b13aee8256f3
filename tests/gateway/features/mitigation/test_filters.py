"""What a filter reads and shows: texts of requests and answers, events as they come, long texts, verdicts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.text.bias_question import verdict
from auditors.text.events import server_events
from gateway.features.mitigation.filter_plan import KIND, Head
from gateway.features.mitigation.filters.answer import LONGEST_LENIENT, events_end, pieces_of_answer, pieces_of_events
from gateway.features.mitigation.filters.filter import HALF, Excerpt
from gateway.features.mitigation.instruction import MOST_READ, question_texts
from gateway.proxy.body import TooManyMembersError

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def texts(body: Any, endpoint: str = CHAT) -> list[str]:
    return question_texts(json.dumps(body).encode(), endpoint)


class TestQuestions:
    """What is looked at of a request."""

    def test_members_that_occur_twice(self) -> None:
        """Both are looked at, whichever the upstream reads; more texts than are read in time are refused."""
        body = b'{"messages":[{"role":"user","content":"a","content":"b"}],"messages":[{"role":"user","content":"c"}]}'
        assert question_texts(body, CHAT) == ["a", "b", "c"]
        with pytest.raises(TooManyMembersError):
            texts({"prompt": ["a"] * (MOST_READ + 1)}, COMPLETIONS)
        with pytest.raises(TooManyMembersError):
            texts({"messages": [{"role": "user", "content": ["a"] * (MOST_READ + 1)}]})


class TestEvents:
    """Where complete events end."""

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000])
    @pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
    def test_however_they_are_cut(self, ending: bytes, size: int) -> None:
        """In pieces of any size the same ends are found, and none within an event."""
        events = [b"data: a" + 2 * ending, b": c" + ending + b"data: b" + 2 * ending, b"data: c" + 2 * ending]
        ends = {sum(map(len, events[: n + 1])) for n in range(3)}
        whole, received, searched, found = b"".join(events) + b"d", bytearray(), 0, set[int]()
        for start in range(0, len(whole), size):
            received += whole[start : start + size]
            end, searched = events_end(received, searched)
            found |= {end} - {0}
        assert found <= ends
        assert max(found) == len(whole) - 1

    @given(st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"x", b"data: a"]), max_size=30), st.integers(1, 4))
    def test_a_stream_can_be_cut_there(self, parts: list[bytes], size: int) -> None:
        """Wherever an end is found, the events before and behind it are those of the whole."""
        whole, received, searched = b"".join(parts) + b"x\n\n", bytearray(), 0
        for start in range(0, len(whole), size):
            received += whole[start : start + size]
            end, searched = events_end(received, searched)
            cut = [*server_events(whole[:end]), *server_events(whole[end:])]
            assert cut == list(server_events(whole))

    def test_what_only_a_lenient_client_reads(self) -> None:
        """Half a character does not hide what stands beside it; what is too long for a lenient reader is not passed."""
        event = b'data: {"choices": [{"delta": {"content": "\\ud83d biased"}}]}\n\n'
        assert ["biased" in piece.text for piece in pieces_of_events(event) or ()] == [True]
        assert pieces_of_events(b"data: no json\n\n") == []
        long = event.replace(b"biased", b"b" * LONGEST_LENIENT)
        assert pieces_of_events(long) is None
        assert pieces_of_answer(b'{"choices": ' + b"[" * LONGEST_LENIENT) is None


class TestExcerpt:
    """What is shown of a long text."""

    @given(st.lists(st.integers(0, 3 * HALF), max_size=6))
    def test_both_ends(self, lengths: list[int]) -> None:
        """However it came, its first and last characters are shown, and whether something is left out."""
        shown, whole = Excerpt(), ""
        for place, length in enumerate(lengths):
            piece = str(place) * length
            shown.add(piece)
            whole += piece
        assert shown.is_whole == (len(whole) <= 2 * HALF)
        assert shown.text == (whole if shown.is_whole else f"{whole[:HALF]}\n[...]\n{whole[-HALF:]}")


class TestVerdicts:
    """A judge's one word."""

    @pytest.mark.parametrize(
        ("reply", "expected"),
        [
            ("yes", True),
            (" **No**.", False),
            ("Yes, it is.", True),
            ("no\n", False),
            ("", None),
            ("yes or no", None),
            ("It is: yes", None),
            ("yesterday", None),
            ("nothing", None),
            ("1. no", None),
        ],
    )
    def test_read(self, reply: str, expected: bool | None) -> None:
        """Yes, no, or nothing that could be read."""
        assert verdict(reply) is expected


class TestHead:
    """Weights over an embedding."""

    HEAD = Head(kind=KIND, embedder="e", weights=(3.0, 4.0), bias=1.0, threshold=0.5, examples_sha256="")

    def test_probability(self) -> None:
        """Of the embedding at unit length, whatever its own."""
        assert self.HEAD.probability([0.6, 0.8]) == pytest.approx(1 / (1 + 2.718281828459045**-6))
        assert self.HEAD.probability([60, 80]) == self.HEAD.probability([0.6, 0.8])

    @pytest.mark.parametrize("embedding", [[1.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
    def test_no_embedding(self, embedding: list[float]) -> None:
        """Of another length, or without direction, it is an error and no number."""
        with pytest.raises(ValueError, match="embedding"):
            self.HEAD.probability(embedding)
