"""Asks a running gateway, for the commands that do."""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any

from auditors.clients.single_request import Answer, NoAnswerError, UnusableAnswerError, request
from gateway.errors import GatewayError

GATEWAY = "http://127.0.0.1:8080"
REQUEST_SECONDS = 30.0
LONGEST_REPLY_BYTES = 16 * 1024 * 1024
AWAY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses of a gateway, or of a proxy before it, after which the same request may succeed later."""


class AwayError(GatewayError):
    """The gateway cannot be reached, or asks to be asked again: waiting may help."""


class GatewayClient:
    """A gateway at a URL. Follows no redirect, for the key is meant for that URL alone."""

    def __init__(self, url: str, key_variable: str | None, *, content_type: str = "application/json") -> None:
        """Raises GatewayError when the URL has no scheme, or the variable is not set."""
        if not url.startswith(("http://", "https://")):
            raise GatewayError(f'--gateway "{url}" must start with http:// or https://')
        self.url = url.rstrip("/")
        self._headers = {"content-type": content_type}
        if key_variable is not None:
            key = os.environ.get(key_variable)
            if not key:
                raise GatewayError(f'environment variable "{key_variable}" (--api-key-env) is not set: export it')
            self._headers["authorization"] = f"Bearer {key}"

    def send(
        self,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        """GET, or POST a body; return the answer, whatever its status. Raises AwayError, GatewayError."""
        sending = request(
            "GET" if body is None else "POST",
            self.url + path,
            seconds=seconds,
            longest=LONGEST_REPLY_BYTES,
            content=body,
            headers={**self._headers, **(headers or {})},
        )
        try:
            answer = asyncio.run(sending)
        except UnusableAnswerError as exc:
            raise GatewayError(f"{self.url}{path}: {exc}") from exc
        except NoAnswerError as exc:
            raise AwayError(f"{self.url}{path} gives no usable answer ({exc}): is the gateway there?") from exc
        if 300 <= answer.status_code < 400:
            location = answer.headers.get("location", "another address")[:200]
            raise GatewayError(f"{self.url}{path} redirects to {location}, which is not followed: see --gateway")
        return answer

    def ask(self, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = REQUEST_SECONDS) -> Any:
        """Return the JSON object of a 2xx answer. Raises AwayError, GatewayError."""
        answer = self.send(path, None if body is None else json.dumps(body).encode(), seconds=seconds)
        if not answer.is_success:
            words = detail(answer.content) or f"status {answer.status_code}"
            raise (AwayError if answer.status_code in AWAY_STATUSES else GatewayError)(f"{self.url}: {words}")
        try:
            reply = json.loads(answer.content)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise GatewayError(f"{self.url}{path} answers with no JSON object: is it a biasgate gateway?")
        return reply


def detail(body: bytes) -> str:
    """Return in one line what a problem (RFC 9457) says is wrong; empty where the body is none."""
    try:
        return " ".join(str(json.loads(body)["detail"]).split())
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
