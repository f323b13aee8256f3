"""The soak's own judgement: exact books pass, and every kind of difference is found."""

from typing import Any

import pytest

from gateway.sampling.decision import fraction
from tools.soak.accounts import Accounts, Samples, disagreements
from tools.soak.client import Sight
from tools.soak.traffic import Plan, Traffic
from tools.soak.watch import Watch

SECRET, RATE = b"a secret of sixteen bytes", 0.5
CHAT = "/v1/chat/completions"


def sample(name: str, value: float, **labels: str) -> tuple[tuple[str, frozenset[tuple[str, str]]], float]:
    return (name, frozenset(labels.items())), value


def books() -> Accounts:
    """One whole answer, one broken by the upstream, one that the client left, one refused."""
    accounts = Accounts(SECRET, RATE, 1000)
    whole = Sight(status=200, is_whole=True)
    accounts.enter(Plan("a", "POST", CHAT, b"{}", opt="on"), "complete", whole, met_restart=False)
    accounts.enter(
        Plan("b", "POST", CHAT, b"{}", fault="truncate", opt="on"), "upstream_error", Sight(), met_restart=False
    )
    accounts.enter(
        Plan("c", "POST", CHAT, b"{}", leaving="reading", opt="off"), "client_disconnected", None, met_restart=False
    )
    accounts.enter(Plan("d", "POST", CHAT, b"{}", refusal="unauthorized"), "rejected", Sight(), met_restart=False)
    return accounts


def samples(**changes: float) -> Samples:
    """What a gateway that counted the same exposes."""
    ends = {"complete": 1.0, "upstream_error": 1.0, "client_disconnected": 1.0} | {
        name: value for name, value in changes.items() if name in ("complete", "timed_out")
    }
    ledger = {"queued": 1.0, "filtered": 1.0, "opted_out": 1.0} | {
        name: value for name, value in changes.items() if name in ("queued", "filtered")
    }
    return dict(
        [
            *(
                sample("biasgate_requests_total", n, endpoint=CHAT, outcome=one, upstream="u")
                for one, n in ends.items()
            ),
            sample("biasgate_requests_total", 1.0, endpoint=CHAT, outcome="rejected", upstream="none"),
            *(sample("biasgate_exchanges_total", n, outcome=one) for one, n in ledger.items()),
            sample("biasgate_inflight_requests", changes.get("inflight", 0.0), upstream="u"),
        ]
    )


STORED = {"audited": 1, "filtered": 1, "opted_out": 1}


def test_equal_books_agree() -> None:
    """Numbers that match the client's own leave nothing to say."""
    assert books().unexplained == []
    assert disagreements(books(), samples(), STORED, was_pressed=False) == []


@pytest.mark.parametrize(
    ("changes", "stored", "said"),
    [
        ({"complete": 2.0}, STORED, "the gateway counted 2, the client 1"),
        ({"timed_out": 1.0}, STORED, "timed_out: the gateway counted 1, the client 0"),
        ({"inflight": 1.0}, STORED, "in flight"),
        ({"filtered": 2.0}, STORED, "adds up to 4, not to 3"),
        ({"queued": 0.0, "filtered": 2.0}, STORED, "has 0 queued, the client expected 1"),
        ({}, STORED | {"audited": 2}, "stored ledger adds up to 4"),
        ({}, {"queued": 1, "filtered": 1, "opted_out": 1}, "still wait"),
    ],
)
def test_each_difference_is_found(changes: dict[str, float], stored: dict[str, int], said: str) -> None:
    """A number that is off by one is named."""
    assert said in "\n".join(disagreements(books(), samples(**changes), stored, was_pressed=False))


@pytest.mark.parametrize("left", [0.0, 1.0, 2.0])
def test_a_tie_may_be_counted_either_way(left: float) -> None:
    """Two clients left, one of them just as its upstream went: one or two have left, not none."""
    accounts = Accounts(SECRET, RATE, 1000)
    plan = Plan("a", "POST", CHAT, b"{}", leaving="reading", opt="off")
    accounts.enter(plan, "client_disconnected", None, met_restart=False)
    accounts.enter(plan, "client_disconnected", None, met_restart=True, otherwise="upstream_error")
    ends = {"client_disconnected": left, "upstream_error": 2.0 - left}
    of_gateway = dict(
        [
            *(
                sample("biasgate_requests_total", n, endpoint=CHAT, outcome=one, upstream="u")
                for one, n in ends.items()
            ),
            sample("biasgate_exchanges_total", 2.0, outcome="opted_out"),
        ]
    )
    found = disagreements(accounts, of_gateway, {"opted_out": 2}, was_pressed=False)
    assert (found == []) is (left >= 1)


@pytest.mark.parametrize(
    ("seen", "met_restart", "is_explained"),
    [("complete", False, True), ("upstream_error", True, True), ("upstream_error", False, False), (None, True, False)],
)
def test_only_a_restart_excuses_another_end(seen: Any, met_restart: bool, is_explained: bool) -> None:
    """An end that differs from the plan is unexplained, unless an upstream was away meanwhile."""
    accounts = Accounts(SECRET, RATE, 1000)
    accounts.enter(Plan("a", "POST", CHAT, b"{}"), seen, Sight(status=200, is_whole=True), met_restart=met_restart)
    assert (accounts.unexplained == []) is is_explained


def test_a_falling_counter_is_found() -> None:
    """A counter that is lower than before, or gone, is named; a gauge may fall."""
    watch = Watch(["u"], {}, RATE)
    watch.compare("u", dict([sample("a_total", 2.0), sample("b_total", 1.0), sample("gauge", 5.0)]))
    watch.compare("u", dict([sample("a_total", 1.0), sample("gauge", 1.0)]))
    assert [line.split("{")[0] for line in watch.fallen] == ["a_total", "b_total"]


def test_traffic_is_seeded() -> None:
    """The same seed asks for the same things, with every kind of plan among them."""
    first, second = Traffic(3, ["m"], max_tokens=4), Traffic(3, ["m"], max_tokens=4)
    plans = [first.next() for _ in range(2000)]
    assert plans == [second.next() for _ in range(2000)]
    assert {plan.leaving for plan in plans} == {None, "uploading", "waiting", "reading"}
    assert len({plan.fault for plan in plans}) == 9
    assert {plan.outcome for plan in plans} == {
        "complete", "upstream_error", "client_disconnected", "timed_out", "rejected",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sight", "was_dropped", "outcome"),
    [
        (Sight(status=200, is_whole=True), False, "complete"),
        (Sight(status=200, silence_seconds=0.1), False, "upstream_error"),
        (Sight(status=200, silence_seconds=20.0), False, "timed_out"),
        (Sight(status=200, silence_seconds=19.0), True, "upstream_error"),
        (Sight(status=504, is_whole=True, code="upstream_timeout"), False, "timed_out"),
        (Sight(), False, None),
    ],
)
def test_what_a_client_makes_of_an_end(sight: Sight, was_dropped: bool, outcome: str | None) -> None:
    """A cut is a time limit's doing after a silence that long, unless the upstream went away in it."""
    assert sight.outcome(20.0, was_dropped=was_dropped) == outcome


def test_what_hangs_on_the_draw_is_booked_by_the_gateways_own_id() -> None:
    """With the secret and the logged exchange id the client knows what was drawn; an id that is missing is a fault."""
    ids = {f"r{n}": f"id-{n}" for n in range(50)}
    accounts = Accounts(SECRET, RATE, 1000)
    for name in (*ids, "unlogged"):
        whole = Sight(status=200, is_whole=True)
        accounts.enter(Plan(name, "POST", CHAT, b"{}"), "complete", whole, met_restart=False)
    accounts.settle(ids)
    drawn = sum(fraction(SECRET, one) < RATE for one in ids.values())
    assert 0 < drawn < 50
    assert accounts.ledger == {"queued": drawn, "sampled_out": 50 - drawn}
    assert accounts.unexplained == ["unlogged is not in the access log"]
