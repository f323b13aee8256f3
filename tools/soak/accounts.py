"""What the client knows must have happened, and whether the gateway's numbers say the same."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.proxy.types import AUDITABLE_ENDPOINTS, LABELLED_ENDPOINTS, EndReason
from gateway.sampling.decision import fraction
from tools.soak.client import Sight
from tools.soak.traffic import Plan

_DRAWN = frozenset({"queued", "truncated", "filtered"})
"""What becomes of a drawn exchange at the gateway."""

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Every sample of an exposition, by name and labels."""


@dataclass
class Accounts:
    """The client's books. `secret`, `rate` and `max_copy_bytes` are those of the gateway's [sampling]."""

    secret: bytes
    rate: float
    max_copy_bytes: int
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(endpoint, outcome) to requests."""
    ledger: Counter[str] = field(default_factory=Counter)
    """Expected outcome at the gateway to requests that reached an upstream."""
    by_plan: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what was planned, outcome) to requests, for the report."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Request id to the outcome it has if it was drawn, which hangs on an id that only the gateway's log tells."""
    unexplained: list[str] = field(default_factory=list)
    during_restarts: list[str] = field(default_factory=list)
    """Ends that differ from the plan because an upstream was restarted meanwhile."""
    ties: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(endpoint, outcome booked, the other one) to requests that two things ended at the same moment."""

    @property
    def requests(self) -> int:
        return self.ends.total()

    def enter(
        self,
        plan: Plan,
        seen: EndReason | None,
        sight: Sight | None,
        *,
        met_restart: bool,
        otherwise: EndReason | None = None,
    ) -> None:
        """Books one end.

        Args:
            plan: the request.
            seen: what the client made of its end, None when it cannot be explained at all.
            sight: what it saw, None when it left.
            met_restart: an upstream was restarted meanwhile.
            otherwise: what the gateway may have seen first in place of `seen`.
        """
        endpoint = plan.endpoint if plan.endpoint in LABELLED_ENDPOINTS else "other"
        attack = f"attack: {plan.attack.name}" if plan.attack else None
        self.by_plan[attack or plan.leaving or plan.refusal or plan.fault or "none", str(seen)] += 1
        if seen is None:
            self.unexplained.append(f"{plan.request_id} {plan.endpoint} fault {plan.fault}: {sight}")
            return
        self.ends[endpoint, seen] += 1
        if otherwise is not None:
            self.ties[endpoint, seen, otherwise] += 1
        if seen != plan.outcome:
            may_differ = met_restart and seen in ("upstream_error", "rejected")
            differing = self.during_restarts if may_differ else self.unexplained
            differing.append(f"{plan.request_id} {plan.endpoint} fault {plan.fault}: {seen}, {sight}")
        decided = self._decided(plan, seen, sight)
        if decided is None:
            return
        if plan.opt is None and decided in _DRAWN and plan.endpoint in AUDITABLE_ENDPOINTS:
            self.undecided[plan.request_id] = decided
        else:
            self.ledger[decided] += 1

    def settle(self, exchange_ids: Mapping[str, str]) -> None:
        """Books what hung on the draw. A request whose exchange id is not told is unexplained.

        Args:
            exchange_ids: by request id, as the gateway has logged them.
        """
        for request_id, drawn in self.undecided.items():
            exchange_id = exchange_ids.get(request_id)
            if exchange_id is None:
                self.unexplained.append(f"{request_id} is not in the access log")
            else:
                self.ledger[drawn if fraction(self.secret, exchange_id) < self.rate else "sampled_out"] += 1
        self.undecided.clear()

    def _decided(self, plan: Plan, seen: EndReason, sight: Sight | None) -> str | None:
        """What the ledger says of it, if it was drawn; None when no sampling decision was taken."""
        if plan.method == "GET" or plan.leaving == "uploading" or seen == "rejected":
            return None
        if plan.endpoint not in AUDITABLE_ENDPOINTS:
            return "filtered"
        if plan.opt == "off":
            return "opted_out"
        if len(plan.body) > self.max_copy_bytes:
            return "truncated"
        if seen != "complete" or sight is None or sight.status != 200:
            return "filtered"
        return "truncated" if sight.length > self.max_copy_bytes else "queued"


def disagreements(accounts: Accounts, samples: Samples, stored: dict[str, int], *, was_pressed: bool) -> list[str]:
    """One line for each number of the gateway that differs from the client's books.

    Args:
        samples: the gateway's last exposition.
        stored: outcome counts of GET /live/ledger, at the same time.
        was_pressed: the sampling rate was lowered for a while, so only sums can be compared.
    """
    found = _ends(accounts, samples)
    counted = {labels["outcome"]: int(n) for labels, n in _of(samples, "biasgate_exchanges_total")}
    relayed = sum(int(n) for labels, n in _of(samples, "biasgate_requests_total") if labels["upstream"] != "none")
    if sum(counted.values()) != relayed:
        found.append(f"the ledger of the gateway adds up to {sum(counted.values())}, not to {relayed} relayed requests")
    if sum(stored.values()) != relayed:
        found.append(f"the stored ledger adds up to {sum(stored.values())}, not to {relayed} relayed requests")
    if accounts.ledger.total() != relayed:
        found.append(f"{relayed} requests were relayed, the client expected {accounts.ledger.total()}")
    if not was_pressed:
        for outcome in sorted({*counted, *accounts.ledger}):
            ours, theirs = accounts.ledger[outcome], counted.get(outcome, 0)
            if ours != theirs:
                found.append(f"the gateway's ledger has {theirs} {outcome}, the client expected {ours}")
    left = stored.get("queued", 0)
    settled = sum(stored.get(one, 0) for one in ("audited", "not_auditable", "failed", "expired")) + left
    # The auditors' own rates leave some of the queued ones out, which the store counts as sampled out.
    settled += stored.get("sampled_out", 0) - counted.get("sampled_out", 0)
    if settled != counted.get("queued", 0) + counted.get("failed", 0):
        found.append(f"{counted.get('queued', 0)} exchanges were queued, {settled} are settled or still wait")
    if left:
        found.append(f"{left} exchanges still wait though the auditor had time")
    return found


def _ends(accounts: Accounts, samples: Samples) -> list[str]:
    counted: Counter[tuple[str, str]] = Counter()
    for labels, n in _of(samples, "biasgate_requests_total"):
        counted[labels["endpoint"], labels["outcome"]] += int(n)
    ends = _with_ties_as(counted, accounts)
    found = [
        f"{endpoint} {outcome}: the gateway counted {counted[endpoint, outcome]}, the client {ends[endpoint, outcome]}"
        for endpoint, outcome in sorted({*counted, *ends})
        if counted[endpoint, outcome] != ends[endpoint, outcome]
    ]
    for labels, n in _of(samples, "biasgate_inflight_requests"):
        if n:
            found.append(f"{n:.0f} requests are said to be in flight to {labels['upstream']} when none is")
    return found


def _with_ties_as(counted: Counter[tuple[str, str]], accounts: Accounts) -> Counter[tuple[str, str]]:
    """The client's ends, its ties booked as the gateway has counted them as far as they go."""
    ends = accounts.ends.copy()
    for (endpoint, booked, other), ties in accounts.ties.items():
        moved = min(max(ends[endpoint, booked] - counted[endpoint, booked], 0), ties)
        ends[endpoint, booked] -= moved
        ends[endpoint, other] += moved
    return ends


def _of(samples: Samples, name: str) -> list[tuple[dict[str, str], float]]:
    return [(dict(labels), value) for (one, labels), value in samples.items() if one == name]
