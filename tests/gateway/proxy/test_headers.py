"""Which headers cross the gateway."""

import re

import pytest

from gateway.proxy.headers import RequestHead, ResponseHead


def upstream_names(head: RequestHead, *, credentials: bool = False, priority: bool = False) -> list[bytes]:
    lines = head.lines_but_id(pass_credentials=credentials, pass_priority=priority)
    return [line.partition(b":")[0] for line in lines]


class TestRequestHead:
    def test_hop_by_hop_and_own_headers_stay_here(self) -> None:
        """Connection headers, framing and x-biasgate-* never reach an upstream."""
        head = RequestHead(
            [
                (b"host", b"gateway"),
                (b"connection", b"keep-alive, X-Private"),
                (b"x-private", b"1"),
                (b"te", b"trailers"),
                (b"upgrade", b"h2c"),
                (b"transfer-encoding", b"chunked"),
                (b"expect", b"100-continue"),
                (b"x-biasgate-audit", b"OFF"),
                (b"x-biasgate-tag", b"hr"),
                (b"x-biasgate-other", b"1"),
                (b"accept", b"*/*"),
            ]
        )

        assert upstream_names(head) == [b"accept"]
        assert (head.audit, head.tag, head.expects_continue, head.has_body) == ("off", "hr", True, True)

    def test_credentials_pass_only_when_told(self) -> None:
        """Keys and priority headers pass by policy alone."""
        head = RequestHead([(b"authorization", b"Bearer k"), (b"x-api-key", b"k"), (b"x-vllm-priority", b"-5")])

        assert upstream_names(head) == []
        assert upstream_names(head, credentials=True) == [b"authorization", b"x-api-key"]
        assert upstream_names(head, priority=True) == [b"x-vllm-priority"]

    @pytest.mark.parametrize(
        ("sent", "passed"),
        [
            (b"a=1; b=2", b"cookie: a=1; b=2\r\n"),
            (b"", b"cookie: \r\n"),
            (b"biasgate_session=x.1.y.z", b""),
            (b"a=1; biasgate_session=x.1.y.z; b=2", b"cookie: a=1; b=2\r\n"),
            (b"a=biasgate_session; biasgate_session_too=1", b"cookie: a=biasgate_session; biasgate_session_too=1\r\n"),
        ],
    )
    def test_the_consoles_session_stays_here(self, sent: bytes, passed: bytes) -> None:
        """A browser sends it along to every path; cookies of others pass as they are."""
        head = RequestHead([(b"cookie", sent), (b"accept", b"*/*")])
        lines = head.lines_but_id(pass_credentials=True, pass_priority=True)

        assert b"".join(lines) == passed + b"accept: */*\r\n"

    def test_request_id_is_kept_or_made(self) -> None:
        """The client's id is kept, a missing one is made."""
        assert RequestHead([(b"x-request-id", b"abc")]).request_id == "abc"
        assert len(RequestHead([]).request_id) == 32

    @pytest.mark.parametrize("sent", [b"", b"two words", b"tab\there", "é".encode(), b"x" * 201, b"\x00", b"a\x7f"])
    def test_request_id_that_does_not_fit_everywhere_is_replaced(self, sent: bytes) -> None:
        """An id goes into headers, logs, traces and the store as it is, so it is 1 to 200 visible ASCII characters."""
        assert re.fullmatch("[0-9a-f]{32}", RequestHead([(b"x-request-id", sent)]).request_id)
        assert RequestHead([(b"x-request-id", sent), (b"x-request-id", b"x" * 200)]).request_id == "x" * 200


class TestResponseHead:
    def test_cleaned(self) -> None:
        """Hop-by-hop headers and framing are taken out, everything else keeps its name and order."""
        head = ResponseHead(
            [
                (b"Content-Type", b"text/event-stream; charset=utf-8"),
                (b"Connection", b"X-Hop"),
                (b"X-Hop", b"1"),
                (b"Transfer-Encoding", b"chunked"),
                (b"Keep-Alive", b"timeout=5"),
                (b"X-Request-Id", b"theirs"),
                (b"Set-Cookie", b"a=1"),
                (b"Set-Cookie", b"b=2"),
            ]
        )

        assert head.lines == [
            b"Content-Type: text/event-stream; charset=utf-8\r\n",
            b"Set-Cookie: a=1\r\n",
            b"Set-Cookie: b=2\r\n",
        ]
        assert (head.transfer_encoding, head.content_length) == (b"chunked", None)
        assert head.is_event_stream

    def test_compressed_streams_take_no_event(self) -> None:
        """Text cannot be appended to a gzip stream."""
        head = ResponseHead([(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")])

        assert not head.is_event_stream
        assert not head.is_identity
