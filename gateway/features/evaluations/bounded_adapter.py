"""Requests of OpenTelemetry's exporters within a time limit; `requests` comes with the extra "otel"."""

import asyncio
import functools
import http.client
import io
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import certifi
import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from auditors.clients.single_request import NoAnswerError, TooSlowError, request

LONGEST_BYTES = 64 * 1024
"""Most bytes of an answer; the rest is not read."""
_NOT_SENT = frozenset({"accept-encoding", "connection", "content-length"})
"""Headers that the transport writes itself."""


class BoundedAdapter(BaseAdapter):
    """Sends each request on a connection of its own."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: limit for a whole exchange; a shorter timeout of a request holds."""
        super().__init__()
        self._seconds = seconds

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Raises requests.exceptions.Timeout or ConnectionError. Proxies are those of the environment."""
        seconds = min(self._seconds, timeout) if isinstance(timeout, int | float) else self._seconds
        try:
            return asyncio.run(_exchange(request, seconds, _tls(verify, cert)))
        except TooSlowError as exc:
            raise requests.exceptions.Timeout(str(exc), request=request) from exc
        except NoAnswerError as exc:
            raise requests.exceptions.ConnectionError(str(exc), request=request) from exc

    def close(self) -> None:
        """Nothing stays open."""


async def _exchange(sent: requests.PreparedRequest, seconds: float, tls: ssl.SSLContext | None) -> requests.Response:
    headers = {name.lower(): _text(value) for name, value in sent.headers.items() if name.lower() not in _NOT_SENT}
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body
    if not isinstance(body, bytes | None):
        raise requests.exceptions.RequestException("only a body of bytes can be sent", request=sent)
    method, url = sent.method or "POST", sent.url or ""
    answer = await request(
        method, url, seconds=seconds, longest=LONGEST_BYTES, is_cut=True, content=body, headers=headers, tls=tls
    )
    response = requests.Response()
    response.status_code = answer.status_code
    response.reason = http.client.responses.get(answer.status_code, "")
    response.headers = CaseInsensitiveDict(answer.headers.items())
    response.headers.pop("content-encoding", None)
    response.raw = io.BytesIO(answer.content)
    response.url = url
    response.request = sent
    return response


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@functools.lru_cache
def _tls(verify: bool | str, cert: Any) -> ssl.SSLContext | None:
    """Return what a session trusts and shows; None for the usual certificates."""
    if verify is True and not cert:
        return None
    trusted = Path(verify if isinstance(verify, str) else certifi.where())
    cafile, capath = (None, str(trusted)) if trusted.is_dir() else (str(trusted), None)
    context = ssl.create_default_context(cafile=cafile, capath=capath)
    if verify is False:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert:
        context.load_cert_chain(*([cert] if isinstance(cert, bytes | str) else cert))
    return context
