"""Send one HTTP request and read at most N bytes of the answer within T seconds, from the connection to the last byte.
Redirects are not followed: the request, and the key in its headers, are for the server that was named.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, read_beginning, read_body
from auditors.clients.cancellation import cancelled_once
from auditors.clients.completion import trusted

LONGEST_ERROR_BYTES = 4096


class Answer(NamedTuple):
    """The status, the headers (names in lower case) and the decoded body of an answer."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """True for a status from 200 to 299."""
        return 200 <= self.status_code < 300


class NoAnswerError(Exception):
    """No usable answer came. The message gives the reason and never the URL, which may hold a secret."""


class TooSlowError(NoAnswerError):
    """The time limit ran out."""


class UnusableAnswerError(NoAnswerError):
    """A 2xx answer came, but its body is too long or cannot be decoded: asking again will not help."""


async def request(
    method: str,
    url: str,
    *,
    seconds: float,
    longest: int,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    is_cut: bool = False,
) -> Answer:
    """Send a request on its own connection, within `seconds` in all, and return the answer, whatever its status.
    `longest`: most bytes of a 2xx answer's decoded body (0 reads none); `is_cut`: cut a longer body instead of raising;
    `tls`: default `trusted()`. Raises TooSlowError, UnusableAnswerError, or NoAnswerError for every other failure.
    """
    if not is_http_url(url):
        raise NoAnswerError("the URL is not valid")
    sent_headers = {**ACCEPT_ENCODING, **(headers or {})}

    async def exchange() -> Answer:
        async with (
            httpx.AsyncClient(
                verify=tls or trusted(),
                timeout=None,  # noqa: S113 - `asyncio.timeout` limits the whole
                follow_redirects=False,
            ) as client,
            client.stream(method, url, content=content, headers=sent_headers) as response,
        ):
            encoding, body = response.headers.get("content-encoding", ""), b""
            if not response.is_success:
                body = await read_beginning(response.aiter_raw(), encoding, LONGEST_ERROR_BYTES)
            elif longest:
                read = read_beginning if is_cut else read_body
                body = await read(response.aiter_raw(), encoding, longest)
            return Answer(response.status_code, dict(response.headers), body)

    try:
        async with asyncio.timeout(seconds):
            return await cancelled_once(exchange())
    except TimeoutError as exc:
        raise TooSlowError(f"no complete answer within {seconds:g} s") from exc
    except BodyError as exc:
        raise UnusableAnswerError(f"the answer cannot be used: {exc}") from exc
    except (httpx.InvalidURL, UnicodeError) as exc:
        raise NoAnswerError("the URL, or a header of the request, is not valid") from exc
    except httpx.HTTPError as exc:
        raise NoAnswerError(_reason(exc)) from exc


def is_http_url(url: str) -> bool:
    """Return whether a URL has the scheme http or https, a host, and a valid port or none."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond 65535, a broken IPv6 address
        return False


def _reason(error: BaseException) -> str:
    """Return the innermost system error in words ("Connection refused"), else the error's message or class name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError | socket.gaierror):
            return " ".join(str(cause.strerror or cause).split())
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
