"""Requests that two readers could take for different ones, as bytes; AFTER follows each on the wire."""

from typing import NamedTuple

AFTER = b"GET /v1/after HTTP/1.1\r\nHost: g\r\n\r\n"
LONG = 200_000
"""More bytes than a head may have."""


class Passed(NamedTuple):
    """A request that is relayed, and what the upstream must have read."""

    data: bytes
    method: str = "POST"
    target: str = "/v1/x"
    body: bytes = b"abc"
    is_last: bool = False
    """The connection ends with it, so AFTER is never read."""


def get(
    target: bytes = b"/v1/x", headers: bytes = b"", *, method: bytes = b"GET", version: bytes = b"HTTP/1.1"
) -> bytes:
    return method + b" " + target + b" " + version + b"\r\nHost: g\r\n" + headers + b"\r\n"


def post(headers: bytes, body: bytes = b"abc") -> bytes:
    return b"POST /v1/x HTTP/1.1\r\nHost: g\r\n" + headers + b"\r\n" + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked\r\n", body)


CODINGS = [
    *(b"xchunked", b"chunked, identity", b"identity, chunked", b"identity", b"gzip, chunked", b"gzip", b"x, chunked"),
    *(b"chunked, chunked", b"\x0bchunked", b'"chunked"', b"chunked;q=1", b"chunked,", b",chunked", b"", b"chu\tnked"),
    *(b"chunked\x00", b"chunked\x0b", b"\xffchunked", b"chun\xc5\xbfed"),
]
LENGTHS = [
    *(b"3, 3", b"3,4", b"+3", b"-3", b"-1", b"0x3", b"3;", b"3.0", b"", b"3 3", b"3_0", b"\xb3", b"1e1", b"three"),
    *(b"3\x0b", b"3\x00", b"\xef\xbc\x93", b"99999999999999999999", b"18446744073709551619", b"0b11", b'"3"'),
]
CHUNKS = {
    "line feed after the extension": b"3;a\nabc\r\n0\r\n\r\n",
    "line feeds only": b"3\nabc\n0\n\n",
    "line feed after the data": b"3\r\nabc\n0\r\n\r\n",
    "space after the size": b"3 \r\nabc\r\n0\r\n\r\n",
    "space before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    "0x": b"0x3\r\nabc\r\n0\r\n\r\n",
    "plus": b"+3\r\nabc\r\n0\r\n\r\n",
    "minus": b"-3\r\nabc\r\n0\r\n\r\n",
    "underscore": b"0_3\r\nabc\r\n0\r\n\r\n",
    "too large a number": b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a number that wraps to 3": b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "not hexadecimal": b"g\r\nabc\r\n0\r\n\r\n",
    "NUL in the size": b"3\x00\r\nabc\r\n0\r\n\r\n",
    "NUL in the extension": b"3;\x00\r\nabc\r\n0\r\n\r\n",
    "open quote in the extension": b'3;a="\r\nabc\r\n0\r\n\r\n',
    "carriage return in the extension": b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "more data than announced": b"3\r\nabcd\r\n0\r\n\r\n",
    "no end of the data": b"3\r\nabc0\r\n\r\n",
    "content-length as a trailer": b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
    "transfer-encoding as a trailer": b"3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "trailer without a colon": b"3\r\nabc\r\n0\r\nfoo bar\r\n\r\n",
}
ONE_CHUNK = b"3\r\nabc\r\n0\r\n\r\n"

REFUSED: dict[str, tuple[bytes, int]] = {
    "CL.TE": (post(b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400),
    "TE.CL": (post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"24\r\n" + AFTER + b"\r\n0\r\n\r\n"), 400),
    "CL.TE with an odd coding": (post(b"Content-Length: 3\r\nTransfer-Encoding: x\r\n"), 400),
    "CL.TE behind a space": (post(b"Content-Length: 3\r\nTransfer-Encoding : chunked\r\n", ONE_CHUNK), 400),
    **{
        f"transfer-encoding {coding!r}": (post(b"Transfer-Encoding: " + coding + b"\r\n", ONE_CHUNK), 400)
        for coding in CODINGS
    },
    "TE.TE": (post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE.TE, odd one last": (post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", ONE_CHUNK), 400),
    "TE.TE, odd one first": (post(b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE.TE, empty one first": (post(b"Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE, space before the colon": (post(b"Transfer-Encoding : chunked\r\n", ONE_CHUNK), 400),
    "TE, vertical tab before it": (post(b"\x0bTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE, folded": (post(b"Transfer-Encoding:\r\n chunked\r\n", ONE_CHUNK), 400),
    "TE, folded into another header": (post(b"A: b\r\n Transfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE behind a bare line feed": (post(b"A: b\nTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE behind a bare carriage return": (post(b"A: b\rTransfer-Encoding: chunked\r\n", ONE_CHUNK), 400),
    "TE in HTTP/1.0": (post(b"Transfer-Encoding: chunked\r\n", ONE_CHUNK).replace(b"1.1", b"1.0"), 400),
    **{f"content-length {length!r}": (post(b"Content-Length: " + length + b"\r\n"), 400) for length in LENGTHS},
    "the same length twice": (post(b"Content-Length: 3\r\nContent-Length: 3\r\n"), 400),
    "two lengths": (post(b"Content-Length: 3\r\nContent-Length: 4\r\n"), 400),
    "two lengths, one padded": (post(b"Content-Length: 3\r\nContent-Length: 0003\r\n"), 400),
    "length, space before the colon": (post(b"Content-Length : 3\r\n"), 400),
    "length, NUL in the name": (post(b"Content-\x00Length: 3\r\n"), 400),
    "length, folded": (post(b"Content-Length:\r\n 3\r\n"), 400),
    **{f"chunks: {name}": (chunked(body), 400) for name, body in CHUNKS.items()},
    "bare line feeds": (get().replace(b"\r\n", b"\n"), 400),
    "bare line feed after the request line": (b"GET /v1/x HTTP/1.1\nHost: g\r\n\r\n", 400),
    "bare line feed between headers": (get(headers=b"A: b\nC: d\r\n"), 400),
    "bare line feed at the end": (b"GET /v1/x HTTP/1.1\r\nHost: g\r\n\n", 400),
    "bare carriage return between headers": (get(headers=b"A: b\rC: d\r\n"), 400),
    "folded header": (get(headers=b"A: b\r\n c\r\n"), 400),
    "folded with a tab": (get(headers=b"A: b\r\n\tc\r\n"), 400),
    "space before the first header": (b"GET /v1/x HTTP/1.1\r\n Host: g\r\n\r\n", 400),
    "NUL in a value": (get(headers=b"A: b\x00c\r\n"), 400),
    "NUL in a name": (get(headers=b"A\x00: c\r\n"), 400),
    "NUL in the target": (get(b"/v1/x\x00y"), 400),
    "control byte in a value": (get(headers=b"A: \x01\r\n"), 400),
    "byte above 127 in a name": (get(headers=b"A\xff: 1\r\n"), 400),
    "byte above 127 in the method": (get(method=b"G\xffT"), 400),
    "space before a colon": (get(headers=b"A : c\r\n"), 400),
    "tab before a colon": (get(headers=b"A\t: c\r\n"), 400),
    "header without a name": (get(headers=b": c\r\n"), 400),
    "header without a colon": (get(headers=b"foo\r\n"), 400),
    "space in the target": (get(b"/v1/x y"), 400),
    "tabs in the request line": (b"GET\t/v1/x\tHTTP/1.1\r\nHost: g\r\n\r\n", 400),
    "unknown method": (get(method=b"FOO"), 400),
    "method in lower case": (get(method=b"get"), 400),
    "protocol in lower case": (get(version=b"http/1.1"), 400),
    "HTTP/1.10": (get(version=b"HTTP/1.10"), 400),
    "HTTP/1.2": (get(version=b"HTTP/1.2"), 400),
    "HTTP/0.9 without a version": (b"GET /v1/x\r\n\r\n", 505),
    "HTTP/0.9": (get(version=b"HTTP/0.9"), 505),
    "HTTP/2.0": (get(version=b"HTTP/2.0"), 505),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 200, 400),
    "CONNECT": (get(b"other:443", method=b"CONNECT"), 405),
    "CONNECT to a path beside ours": (get(b"/metrics", method=b"CONNECT"), 405),
    "CONNECT to a path of ours": (get(method=b"CONNECT"), 405),
    "CONNECT with an upgrade": (get(headers=b"Connection: upgrade\r\nUpgrade: h2c\r\n", method=b"CONNECT"), 405),
    "TRACE": (get(method=b"TRACE"), 405),
    "one long header": (get(headers=b"A: " + b"x" * LONG + b"\r\n"), 431),
    "a long target": (get(b"/v1/" + b"x" * LONG), 431),
    "many headers": (get(headers=b"A: b\r\n" * 200), 431),
    "very many headers": (get(headers=b"A: b\r\n" * 30_000), 431),
}
"""Bytes, and the one status they get before the connection ends."""

PASSED: dict[str, Passed] = {
    "length": Passed(post(b"Content-Length: 3\r\n")),
    "length with spaces around": Passed(post(b"Content-Length: \t 3 \t\r\n")),
    "length with leading zeros": Passed(post(b"Content-Length: 003\r\n")),
    "length of a GET": Passed(get(headers=b"Content-Length: 3\r\n") + b"abc", "GET"),
    "length named by connection": Passed(post(b"Connection: content-length\r\nContent-Length: 3\r\n")),
    "length with an underscore beside it": Passed(post(b"Content_Length: 50\r\nContent-Length: 3\r\n")),
    "no length": Passed(post(b"", b""), body=b""),
    "chunks": Passed(chunked(ONE_CHUNK)),
    "chunks, coding in odd case": Passed(post(b"tRANSFER-eNCODING: ChUnKeD\r\n", ONE_CHUNK)),
    "chunks, coding with spaces around": Passed(post(b"Transfer-Encoding:\t chunked \r\n", ONE_CHUNK)),
    "chunks with extensions": Passed(chunked(b'3;a=b;c="d;e"\r\nabc\r\n0;x\r\n\r\n')),
    "chunks with padded sizes": Passed(chunked(b"0000000000000000000003\r\nabc\r\n000\r\n\r\n")),
    "chunks with trailers": Passed(chunked(b"3\r\nabc\r\n0\r\nX-Late: 1\r\nHost: other\r\n\r\n")),
    "coding with an underscore": Passed(post(b"Transfer_Encoding: chunked\r\nContent-Length: 3\r\n")),
    "a request inside a body": Passed(post(b"Content-Length: %d\r\n" % len(AFTER), AFTER), body=AFTER),
    "HTTP/1.0": Passed(post(b"Content-Length: 3\r\n").replace(b"1.1", b"1.0"), is_last=True),
    "connection: close": Passed(post(b"Connection: close\r\nContent-Length: 3\r\n"), is_last=True),
    "absolute target": Passed(get(b"http://other/v1/x?q=1"), "GET", "/v1/x?q=1", b""),
    "absolute target with a user": Passed(get(b"https://u:p@other:1/v1/x"), "GET", "/v1/x", b""),
    "two hosts": Passed(get(headers=b"Host: other\r\n"), "GET", body=b""),
    "no host": Passed(b"GET /v1/x HTTP/1.1\r\n\r\n", "GET", body=b""),
    "empty lines before": Passed(b"\r\n\r\n" + get(), "GET", body=b""),
    "bytes above 127 in a value": Passed(get(headers=b"A: \xff\xfe\r\n"), "GET", body=b""),
    "upgrade": Passed(get(headers=b"Connection: upgrade\r\nUpgrade: h2c\r\n"), "GET", body=b""),
}
