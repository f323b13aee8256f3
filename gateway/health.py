"""The answers of /livez and /readyz, in both the gateway and the auditor, and the names of the readiness checks."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

from auditors.addresses import mask_addresses

OK = "ok"
STORE = "store"
"""The database answers."""
UPSTREAMS = "upstreams"
"""The gateway has a server to relay to."""
SUITES = "suites"
"""The auditor has told the gateways which suites it runs."""
STREAMS = "streams"
"""Live series whose stored state is damaged, where there are any: others are audited, so it passes and names them."""
SERVER = "server"
"""The gateway is not stopping."""
# An auditor that waits for a sick server is a check by that auditor's name.

Probe = Callable[[], Awaitable[Mapping[str, str]]]
"""Named checks; a check passes when its text starts with OK, and says otherwise what is wrong."""


class Liveness(msgspec.Struct):
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct):
    status: Literal["ready", "not ready"]
    checks: dict[str, str]

    @property
    def status_code(self) -> int:
        return 200 if self.status == "ready" else 503


async def readiness(probe: Probe) -> Readiness:
    """Ready when every check passes."""
    checks = {name: mask_addresses(text) for name, text in (await probe()).items()}
    is_ready = all(text.startswith(OK) for text in checks.values())
    return Readiness(status="ready" if is_ready else "not ready", checks=checks)


def circuit_text(opened_at: float, n_waiting: int, error: str) -> str:
    """Return the text about an open circuit, and the exchanges that wait for it, for /readyz and the console."""
    began = time.gmtime(opened_at)
    is_today = time.time() - opened_at < 12 * 3600
    since = time.strftime("%H:%M UTC" if is_today else "%Y-%m-%d %H:%M UTC", began)
    wait = "1 exchange waits" if n_waiting == 1 else f"{n_waiting:,} exchanges wait"
    return f"circuit open since {since}, {wait}, last error: {error}"
