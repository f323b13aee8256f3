"""The auditor's HTTP server: GET /metrics, /livez, /readyz, without the web framework, which takes 15 MB of memory."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import uvicorn

from gateway.control_keys import ControlKeys
from gateway.errors import ConfigError
from gateway.health import Liveness, Probe, readiness
from gateway.proxy.refusals import CHALLENGE
from gateway.telemetry.exposition import Exposition

Renewal = Callable[[], Awaitable[None]]
JSON = "application/json"
NOSNIFF = (b"x-content-type-options", b"nosniff")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError when the address cannot be had."""
    try:
        return socket.create_server((host, port), backlog=64, family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as exc:
        raise ConfigError(
            f"the auditor's metrics cannot listen on {host}:{port}: {exc.strerror}: "
            "set server.auditor_metrics_port to another port, or to 0 for a free one"
        ) from exc


class Endpoint(uvicorn.Server):
    """Serves until `should_exit` is set; leaves the process's signals alone."""

    def __init__(
        self, exposition: Exposition, probe: Probe, keys: ControlKeys | None = None, *, renew: Renewal | None = None
    ) -> None:
        """Listen to nothing yet. `probe`: for /readyz. `keys`: of /metrics; None: open. `renew`: before a scrape."""
        self._keys = keys
        self._renew = renew
        self._exposition = exposition
        self._probe = probe
        super().__init__(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def _answer(self, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        if scope["path"] == "/metrics" and not self._may_scrape(scope):
            status, content_type, body = 401, "text/plain", b"a control key is missing or wrong: send it as Bearer\n"
        else:
            status, content_type, body = await self._page(scope["path"], _header(scope, b"accept"))
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), NOSNIFF]
        if status == 401:
            headers.append((b"www-authenticate", CHALLENGE.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _may_scrape(self, scope: dict[str, Any]) -> bool:
        return self._keys is None or self._keys.holder(_header(scope, b"authorization")) is not None

    async def _page(self, path: str, accept: str) -> tuple[int, str, bytes]:
        match path:
            case "/metrics":
                if self._renew is not None:
                    await self._renew()
                body, content_type = await self._exposition.render(accept)
                return 200, content_type, body
            case "/livez":
                return 200, JSON, msgspec.json.encode(Liveness())
            case "/readyz":
                report = await readiness(self._probe)
                return report.status_code, JSON, msgspec.json.encode(report)
            case _:
                return 404, "text/plain", b"the auditor answers /metrics, /livez and /readyz\n"


def _header(scope: dict[str, Any], header_name: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == header_name), "")
