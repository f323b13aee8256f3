"""What /livez and /readyz answer, in the gateway and in the auditor alike, and the names of the readiness checks."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

OK = "ok"
STORE = "store"
"""The database answers."""
UPSTREAMS = "upstreams"
"""The gateway has a server to relay to."""
SUITES = "suites"
"""The auditor has told the gateways which suites it runs."""
SERVER = "server"
"""The gateway is not stopping."""

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
    checks = dict(await probe())
    is_ready = all(text.startswith(OK) for text in checks.values())
    return Readiness(status="ready" if is_ready else "not ready", checks=checks)
