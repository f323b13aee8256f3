"""The rule that tells a sick server from an exchange that it cannot handle."""

import pytest

from auditors.clients.pacing import NotSentError
from auditors.types import CompletionError, FailureKind
from gateway.auditor.backpressure.circuit_breaker import (
    FAILURES_TO_OPEN,
    LONGEST_PAUSE_SECONDS,
    MOST_OWN_FAILURES,
    Attempt,
    Earlier,
    FailureRun,
    Fault,
    current_attempt,
    during,
    fault_of,
    next_pause,
)

HANGS = Fault("timeout", "no reply", False)
GARBLES = Fault("malformed", "a reply that cannot be read", False)
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
        ],
    )
    def test_what_a_server_can_be_blamed_for(
        self, kind: FailureKind, status: int | None, was_reached: bool, is_servers: bool
    ) -> None:
        """A key that is wrong or a refused connection is no exchange's doing; a timeout or a 500 may be."""
        fault = fault_of(CompletionError(kind, "words", status_code=status, was_reached=was_reached))

        assert fault is not None
        assert (fault.kind, fault.is_servers) == (kind, is_servers)

    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_a_rejected_request_says_nothing_of_the_server(self, status: int) -> None:
        """A context that is too long is the exchange's own."""
        assert fault_of(CompletionError("rejected", "too long", status_code=status)) is None

    def test_a_servers_words_are_not_shown(self) -> None:
        """They may repeat the prompt; the status says enough."""
        fault = fault_of(CompletionError("unavailable", "status 500: Are women better?", status_code=500))

        assert fault is not None
        assert fault.words == "status 500"


class TestAttempt:
    def test_any_use_is_health(self) -> None:
        """A server that answered one of several questions was not the reason of the rest."""
        attempt = Attempt("judge", "x", 0.0)
        attempt.failed("u", HANGS)
        assert (attempt.sound, attempt.sick) == ([], {"u": HANGS})
        attempt.answered("u")

        assert (attempt.sound, attempt.sick) == (["u"], {})

    def test_an_answer_that_cannot_be_read_is_no_use(self) -> None:
        """Status 200 with garbage is a failure like another; one readable reply mends it."""
        attempt = Attempt("judge", "x", 0.0)
        for _ in range(3):
            attempt.answered("u")
            attempt.unreadable("u")
        assert attempt.sick["u"].kind == "malformed"
        attempt.answered("u")

        assert attempt.sick == {}

    def test_a_blocked_audit_sends_nothing(self) -> None:
        """The first question is refused, and the audit knows that it was."""
        attempt, free = Attempt("judge", "x", 0.0, blocked_by="u"), Attempt("judge", "x", 0.0)
        free.refuse_if_blocked()
        with pytest.raises(NotSentError):
            attempt.refuse_if_blocked()

        assert (attempt.was_refused, free.was_refused) == (True, False)

    def test_it_is_current_inside_its_block(self) -> None:
        """What is sent outside, such as a suite's requests, belongs to no audit."""
        with during(Attempt("judge", "x", 0.0)) as attempt:
            assert current_attempt() is attempt

        assert current_attempt() is None


class TestFailureRun:
    @pytest.mark.parametrize("fault", [HANGS, GARBLES, IS_AWAY])
    def test_a_sick_server_fails_no_exchange_for_good(self, fault: Fault) -> None:
        """Five exchanges in a row open the circuit, and not one of the failures was an exchange's own."""
        run = FailureRun()
        run.succeed(1.0)
        own = [run.fail(fault, 2.0 + n, None) for n in range(FAILURES_TO_OPEN)]

        assert own == [0] * FAILURES_TO_OPEN
        assert run.is_too_long

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

    def test_many_such_exchanges_open_no_circuit_either(self) -> None:
        """A judge that fails for one group fails many exchanges in a row, and is not sick."""
        run = FailureRun()
        run.succeed(1.0)
        own = [run.fail(HANGS, 0.5, None) for _ in range(10 * FAILURES_TO_OPEN)]

        assert set(own) == {1}
        assert not run.is_too_long

    def test_a_judge_that_reads_others_has_been_asked_enough(self) -> None:
        """One audit asks three times already."""
        run = FailureRun()
        run.succeed(1.0)

        assert run.fail(GARBLES, 0.5, None) is None

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


def test_pauses_grow_and_end_growing() -> None:
    """Each is twice the one before, up to a minute."""
    pauses = [1.0]
    while pauses[-1] < LONGEST_PAUSE_SECONDS:
        pauses.append(next_pause(pauses[-1]))

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert next_pause(pauses[-1]) == LONGEST_PAUSE_SECONDS
