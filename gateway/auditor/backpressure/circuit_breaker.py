"""Circuit breaker of an auditor and a server: tells a sick server from an exchange that the server cannot handle.
Closed, audits are made. After FAILURES_TO_OPEN audits in a row without a usable answer, a known good exchange is
audited (`gateway.auditor.known_good`), because clients choose the text of all others. If it fails too, the circuit
opens: what needs the server is refused before it is sent, and its exchanges wait. Open, the known good exchange is
audited again after growing pauses; its first success closes the circuit. A whole audit counts, not a request.
`gateway.auditor.circuits` keeps the state in the store.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from auditors.clients.pacing import NotSentError
from auditors.types import CompletionError, FailureKind

FAILURES_TO_OPEN = 5
"""Failed audits in a row, after which the known good exchange decides."""
OWN_FAILURES: Mapping[FailureKind, int] = {"malformed": 1}
"""Failures that an exchange may have while its server answers others; a judge is asked thrice (protocols 2.7)."""
MOST_OWN_FAILURES = 3
"""The same number for the other kinds."""
FIRST_PAUSE_SECONDS = 1.0
"""Before the known good exchange is audited again; the pause doubles with every failure of it."""
LONGEST_PAUSE_SECONDS = 60.0

_SERVERS_FAULT = frozenset({401, 403, 404, 429, 503})
"""Statuses that an exchange hardly ever causes: a wrong key or model name, an overloaded or starting server. Exceptions
are why they open a circuit only when the known good exchange fails too."""


class Fault(NamedTuple):
    """A description of a server's failure in an audit."""

    kind: FailureKind
    words: str
    """A description in our own words: a server's may repeat the prompt, and these are shown to everybody."""
    is_servers: bool
    """True for a failure that an exchange hardly ever causes."""


def fault_of(exc: CompletionError) -> Fault | None:
    """Return the fault of the server that a failed request shows; None if the request may be all that is wrong."""
    match exc.kind:
        case "unavailable":
            words = str(exc) if exc.status_code is None else f"status {exc.status_code}"
            return Fault(exc.kind, words, not exc.was_reached or exc.status_code in _SERVERS_FAULT)
        case "rejected" if exc.status_code in _SERVERS_FAULT:
            return Fault(exc.kind, f"status {exc.status_code}", True)
        case "timeout":
            return Fault(exc.kind, str(exc), False)
        case "malformed":
            return Fault(exc.kind, "a reply that cannot be read", False)
        case _:
            return None


class Attempt:
    """A single audit of a single exchange, with the behaviour of the servers that it asked."""

    def __init__(self, auditor: str, exchange_id: str, began_at: float, *, blocked_by: str | None = None) -> None:
        """Begin the audit, at a Unix time. `blocked_by`: a server it needs whose circuit is open: nothing is sent."""
        self.auditor = auditor
        self.exchange_id = exchange_id
        self.began_at = began_at
        self.blocked_by = blocked_by
        self.was_refused = False
        """Whether it wanted to send something and could not, for `blocked_by`."""
        self._usable = Counter[str]()
        self._faults: dict[str, Fault] = {}

    @property
    def sound(self) -> list[str]:
        """Servers that gave anything that could be used."""
        return [server for server, count in self._usable.items() if count > 0]

    @property
    def sick(self) -> dict[str, Fault]:
        """Servers that failed and gave nothing that could be used, with how they failed last."""
        return {server: fault for server, fault in self._faults.items() if self._usable[server] <= 0}

    def refuse_if_blocked(self) -> None:
        """Raises NotSentError when a server that the audit needs has an open circuit."""
        if self.blocked_by is not None:
            self.was_refused = True
            raise NotSentError("unavailable", f"the circuit of {self.blocked_by} is open")

    def answered(self, server: str) -> None:
        self._usable[server] += 1

    def unreadable(self, server: str) -> None:
        """Take note that the reply for which `answered` was called was of no use after all."""
        self._usable[server] -= 1
        self.failed(server, Fault("malformed", "a reply that cannot be read", False))

    def failed(self, server: str, fault: Fault | None) -> None:
        if fault is not None:
            self._faults[server] = fault


_current: ContextVar[Attempt] = ContextVar("attempt")


def current_attempt() -> Attempt:
    """The audit for which a request is sent; an unread one where it is sent for something else, such as a suite run."""
    return _current.get(None) or Attempt("", "", 0.0)


@contextmanager
def during(attempt: Attempt) -> Iterator[Attempt]:
    """Count all requests sent inside the block, and by tasks that begin there, as sent for this audit."""
    token = _current.set(attempt)
    try:
        yield attempt
    finally:
        _current.reset(token)


class Earlier(NamedTuple):
    """Facts about an exchange that waits for an auditor. Times are Unix seconds."""

    own_failures: int
    since: float
    """Time at which its first audit began, or its circuit was last closed."""
    failed_at: float | None


class FailureRun:
    """The failures in a row of a single server at a single auditor."""

    def __init__(self) -> None:
        self.length = 0
        self.last_fault: Fault | None = None
        self._succeeded_at = -math.inf

    @property
    def is_too_long(self) -> bool:
        return self.length >= FAILURES_TO_OPEN

    def succeed(self, now: float) -> None:
        """The server was of use."""
        self.length = 0
        self._succeeded_at = now

    def shift(self, seconds: float) -> None:
        """Follow the wall clock, which has jumped by so many seconds."""
        self._succeeded_at += seconds

    def fail(self, fault: Fault, began_at: float, earlier: Earlier | None) -> int | None:
        """Count a failed audit of an exchange; return its own failures so far, None once they are too many (failed for
        good). It is the exchange's own failure, and none in the row, when the server has answered others since its
        first audit began or, where no exchange could have caused the fault, since it failed before. `began_at`: when
        the audit did. `earlier`: what is known of the exchange; None at its first failure.
        """
        own = 0 if earlier is None else earlier.own_failures
        if fault.is_servers:
            since = math.inf if earlier is None or earlier.failed_at is None else earlier.failed_at
        else:
            since = began_at if earlier is None else earlier.since
        if self._succeeded_at <= since:
            self.length += 1
            self.last_fault = fault
            return own
        own += 1
        return None if own >= OWN_FAILURES.get(fault.kind, MOST_OWN_FAILURES) else own


def next_pause(pause_seconds: float) -> float:
    """Return the pause in seconds after the known good exchange has failed again."""
    return min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
