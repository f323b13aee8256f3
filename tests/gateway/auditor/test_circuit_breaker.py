"""The rule that tells a sick server from an exchange that it cannot handle."""

import pytest

from auditors.types import CompletionError, FailureKind
from gateway.auditor.backpressure.circuit_breaker import (
    FAILURES_TO_OPEN,
    MOST_OWN_FAILURES,
    Attempt,
    Earlier,
    FailureRun,
    Fault,
    fault_of,
)

HANGS = Fault("timeout", "no reply", False)
IS_AWAY = Fault("unavailable", "connection refused", True)


class TestFaultOf:
    @pytest.mark.parametrize(
        ("kind", "status", "was_reached", "is_servers"),
        [
            ("unavailable", None, False, True),
            ("unavailable", None, True, False),
            ("unavailable", 503, True, True),
            ("unavailable", 429, True, True),
            ("unavailable", 500, True, False),
            ("rejected", 401, True, True),
            ("rejected", 403, True, True),
            ("rejected", 404, True, True),
            ("timeout", None, True, False),
            ("malformed", 200, True, False),
            ("rejected", 400, True, None),
            ("rejected", 413, True, None),
            ("rejected", 422, True, None),
        ],
    )
    def test_what_a_server_can_be_blamed_for(
        self, kind: FailureKind, status: int | None, was_reached: bool, is_servers: bool | None
    ) -> None:
        """Wrong keys and refused connections are the server's fault, 500s perhaps, and too long contexts are not."""
        fault = fault_of(CompletionError(kind, "words", status_code=status, was_reached=was_reached))

        expected = None if is_servers is None else (kind, is_servers)
        assert (fault and (fault.kind, fault.is_servers)) == expected

    def test_a_servers_words_are_not_shown(self) -> None:
        """They may repeat the prompt; the status says enough."""
        fault = fault_of(CompletionError("unavailable", "status 500: Are women better?", status_code=500))

        assert fault is not None
        assert fault.words == "status 500"


def test_an_answer_that_cannot_be_read_is_no_use() -> None:
    """Status 200 with garbage is a failure like another; one readable reply mends it."""
    attempt = Attempt("judge", "x", 0.0)
    for _ in range(3):
        attempt.answered("u")
        attempt.unreadable("u")
    assert attempt.sick["u"].kind == "malformed"
    attempt.answered("u")

    assert attempt.sick == {}


class TestFailureRun:
    @pytest.mark.parametrize("fault", [HANGS, IS_AWAY])
    def test_one_exchange_alone_opens_it_too(self, fault: Fault) -> None:
        """Where nothing else is audited, its repeated failures are all there is to go by."""
        run, earlier = FailureRun(), None
        for n in range(FAILURES_TO_OPEN):
            assert not run.is_too_long
            own = run.fail(fault, float(n), earlier)
            assert own == 0
            earlier = Earlier(own, since=0.0, failed_at=n + 0.5)

        assert run.is_too_long

    def test_what_hangs_while_others_are_answered_fails_by_itself(self) -> None:
        """After its own attempts; they open no circuit, also when the others are long done."""
        run, earlier, own = FailureRun(), None, []
        run.succeed(1.0)
        for n in range(MOST_OWN_FAILURES):
            own.append(run.fail(HANGS, 0.5 + n, earlier))
            earlier = Earlier(own[-1] or 0, since=0.5, failed_at=2.0 + n)

        assert own == [*range(1, MOST_OWN_FAILURES), None]
        assert run.length == 0

    def test_a_broken_connection_is_blamed_on_an_exchange_only_in_hindsight(self) -> None:
        """A server that went away: what it answered before proves nothing, what it answers after does."""
        run = FailureRun()
        run.succeed(1.0)
        assert run.fail(IS_AWAY, 0.5, None) == 0
        assert run.fail(IS_AWAY, 2.0, Earlier(0, since=0.5, failed_at=1.5)) == 0
        run.succeed(3.0)

        assert run.fail(IS_AWAY, 3.5, Earlier(0, since=0.5, failed_at=2.5)) == 1

    def test_a_success_ends_the_row(self) -> None:
        """Failures that are not in a row are none of the server's."""
        run = FailureRun()
        for n in range(10 * FAILURES_TO_OPEN):
            run.fail(IS_AWAY, float(n), None)
            run.succeed(n + 0.5)

            assert not run.is_too_long
