"""The auditor's own small HTTP endpoint: /metrics, /livez, /readyz."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
import uvicorn

from gateway.auditing.metrics import AuditorMetrics
from gateway.errors import ConfigError

Probe = Callable[[], Awaitable[Mapping[str, str]]]
"""Named checks; "ok" is good."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"


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

    def __init__(self, metrics: AuditorMetrics, probe: Probe) -> None:
        self._metrics = metrics
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
        status, content_type, body = await self._page(scope["path"])
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _page(self, path: str) -> tuple[int, str, bytes]:
        match path:
            case "/metrics":
                return 200, TEXT, self._metrics.exposition()
            case "/livez":
                return 200, "application/json", b'{"status":"ok"}'
            case "/readyz":
                checks = dict(await self._probe())
                is_ready = all(state == "ok" for state in checks.values())
                status = "ok" if is_ready else "unavailable"
                return (
                    200 if is_ready else 503,
                    "application/json",
                    msgspec.json.encode({"status": status, "checks": checks}),
                )
            case _:
                return 404, "text/plain", b"the auditor answers /metrics, /livez and /readyz\n"
