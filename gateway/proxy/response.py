"""Frames a response for the client's HTTP version and method. Every method returns bytes to write."""

import http

from gateway.proxy.cors import without_cors
from gateway.proxy.headers import ResponseHead
from gateway.proxy.refusals import Refusal


class ClientResponse:
    """The response side of a single exchange."""

    __slots__ = (
        *("_is_head_request", "_is_http_1_0", "_own_lines", "_replaces_cors", "can_append_event", "has_head"),
        *("is_chunked", "is_close_delimited", "keep_alive", "note", "request_id", "status"),
    )

    def __init__(
        self, request_id: str, *, is_head_request: bool = False, is_http_1_0: bool = False, keep_alive: bool = True
    ) -> None:
        self.request_id = request_id.encode("latin-1")
        self._is_head_request = is_head_request
        self._is_http_1_0 = is_http_1_0
        self.is_chunked = False
        self.keep_alive = keep_alive
        self._own_lines = b""
        self._replaces_cors = False
        self.note = b""
        """Header lines of the gateway's own, on every answer; empty for none."""
        self.status = 0
        """What the client was answered; 0 before that."""
        self.has_head = False
        """A final status line was sent."""
        self.is_close_delimited = False
        """The body ends where the connection does, so an orderly close would hide that it was cut off."""
        self.can_append_event = False
        """The body is an open-ended event stream, so an error event fits behind what was sent."""

    def set_cors(self, lines: bytes) -> None:
        """Answer with these header lines in place of an upstream's CORS headers. Call it before anything is written."""
        self._replaces_cors = True
        self._own_lines = self.note = lines

    def set_note(self, line: bytes) -> None:
        """Add this header line to every answer, in place of a line set before."""
        self.note = self._own_lines + line

    def informational(self, status: int, reason: bytes, head: ResponseHead) -> bytes:
        """A 1xx, which HTTP/1.0 does not know."""
        if self._is_http_1_0:
            return b""
        return b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, reason, b"".join(head.lines))

    def head(self, status: int, reason: bytes, head: ResponseHead, label_line: bytes) -> bytes:
        """Status line and headers of an upstream's response, with the framing that suits the client."""
        self.has_head = True
        self.status = status
        framing = self._framing(status, head)
        return b"".join(
            (
                b"HTTP/1.1 %d " % status,
                reason,
                b"\r\n",
                *(without_cors(head.lines) if self._replaces_cors else head.lines),
                framing,
                b"x-request-id: ",
                self.request_id,
                b"\r\n",
                label_line,
                self.note,
                b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n",
            )
        )

    def complete(self, status: int, reason: bytes, head: ResponseHead, label_line: bytes, body: bytes) -> bytes:
        """Head and body of an upstream's response that came at once, with its content-length."""
        self.has_head = True
        self.status = status
        block = head.block
        if block is None:
            # Noted for all answers of one configuration, which either replaces CORS headers or does not.
            lines = without_cors(head.lines) if self._replaces_cors else head.lines
            head.block = block = b"".join((b"HTTP/1.1 %d " % status, reason, b"\r\n", *lines))
        return b"".join(
            (
                block,
                b"content-length: %d\r\nx-request-id: " % len(body),
                self.request_id,
                b"\r\n",
                label_line,
                self.note,
                b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n",
                body,
            )
        )

    def _framing(self, status: int, head: ResponseHead) -> bytes:
        if status == 204:
            return b""
        if head.content_length is not None:
            return b"content-length: " + head.content_length + b"\r\n"
        if self._is_head_request or status == 304:
            return b""
        self.can_append_event = head.is_event_stream
        if self._is_http_1_0:
            self.keep_alive = False
            self.is_close_delimited = True
            return b""
        self.is_chunked = True
        return b"transfer-encoding: chunked\r\n"

    def body(self, data: bytes) -> bytes:
        """A piece of the body; `data` is not empty."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data

    def end(self) -> bytes:
        """Return the bytes that end the body, if there are any."""
        return b"0\r\n\r\n" if self.is_chunked else b""

    def own(self, status: int, body: bytes, extra: bytes = b"") -> bytes:
        """A complete JSON response of the gateway itself."""
        self.has_head = True
        self.status = status
        return (
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
            b"content-length: %d\r\nx-request-id: %b\r\n%b%b\r\n%b"
            % (
                status,
                http.HTTPStatus(status).phrase.encode(),
                len(body),
                self.request_id,
                self.note + extra,
                b"" if self.keep_alive else b"connection: close\r\n",
                b"" if self._is_head_request else body,
            )
        )

    def refusal(self, refusal: Refusal, label_line: bytes = b"") -> bytes:
        return self.own(refusal.status, refusal.body, label_line + refusal.header_lines)

    def empty(self, lines: bytes) -> bytes:
        """Return an answer of the gateway's own with status 204 and these header lines."""
        self.has_head = True
        self.status = 204
        return b"HTTP/1.1 204 No Content\r\nx-request-id: %b\r\n%b%b\r\n" % (
            self.request_id,
            self.note + lines,
            b"" if self.keep_alive else b"connection: close\r\n",
        )
