"""What a canary draws its pairs from, fixed before the first one."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.features.canary.gaps import DIRECTIONS, FAILURE_RATE, REFUSAL_RATE, Gap

LEAST_EXCHANGES = 10
"""Exchanges about a group, or that owe a metric, below which it is left out: pairs of so few say little of traffic."""
ANSWERS_IN_WORDS = "counterfactual"
"""Auditor whose answers can be refused."""


class Stratum(msgspec.Struct, frozen=True, kw_only=True):
    """Exchanges that name one group."""

    auditor: str
    axis: str
    group: str
    metrics: list[str]
    exchange_ids: list[str]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Where both sides are asked, and about which exchanges."""

    upstreams: dict[str, str]
    """By side."""
    fingerprints: dict[str, str | None]
    """By side, of what was served at the start; None where the upstream did not say."""
    strata: list[Stratum]
    n_looked_at: int
    """Stored exchanges of the stable model that were looked at, newest first."""
    left_out: dict[str, int]
    """"axis/group", or that and a metric, to how many exchanges: too few."""

    @property
    def gaps(self) -> list[Gap]:
        """Everything that is compared."""
        found = [Gap(one.auditor, metric, one.axis, one.group) for one in self.strata for metric in one.metrics]
        for auditor in dict.fromkeys(one.auditor for one in self.strata):
            if auditor == ANSWERS_IN_WORDS:
                found.append(Gap(auditor, REFUSAL_RATE))
            found.append(Gap(auditor, FAILURE_RATE))
        return found


class Due(NamedTuple):
    """What one auditor owes about one exchange."""

    exchange_id: str
    auditor: str
    axis: str
    group: str
    metrics: Sequence[str]


def strata_of(due: Iterable[Due]) -> tuple[list[Stratum], dict[str, int]]:
    """The strata, and what is left out for being about too few exchanges."""
    ids: dict[tuple[str, str, str], list[str]] = {}
    owed: dict[tuple[str, str, str], dict[str, int]] = {}
    for one in due:
        key = one.auditor, one.axis, one.group
        ids.setdefault(key, []).append(one.exchange_id)
        metrics = owed.setdefault(key, {})
        for metric in one.metrics:
            metrics[metric] = metrics.get(metric, 0) + 1
    strata, left_out = [], {}
    for key in sorted(ids):
        auditor, axis, group = key
        if len(ids[key]) < LEAST_EXCHANGES:
            left_out[f"{auditor} {axis}/{group}"] = len(ids[key])
            continue
        enough = [metric for metric in DIRECTIONS if owed[key].get(metric, 0) >= LEAST_EXCHANGES]
        for metric, n in owed[key].items():
            if metric in DIRECTIONS and metric not in enough:
                left_out[f"{metric} {axis}/{group}"] = n
        strata.append(Stratum(auditor=auditor, axis=axis, group=group, metrics=enough, exchange_ids=sorted(ids[key])))
    return strata, left_out


def drawn(plan: Plan, canary_id: str, number: int) -> tuple[Stratum, str]:
    """Stratum and exchange of a draw: every stratum is as likely as any other, and so is every exchange in it.

    With replacement: pairs are then independent and alike whatever is stored, as the evidence needs. A draw hangs on
    the canary's id and its number alone, so a restart goes on with the very draws that were left.
    """
    digest = hashlib.sha256(f"{canary_id}:{number}".encode()).digest()
    stratum = plan.strata[int.from_bytes(digest[:8]) % len(plan.strata)]
    return stratum, stratum.exchange_ids[int.from_bytes(digest[8:16]) % len(stratum.exchange_ids)]


def described(plan: Plan) -> Mapping[str, int]:
    """How many exchanges there are to draw from, by auditor, axis and group."""
    return {f"{one.auditor} {one.axis}/{one.group}": len(one.exchange_ids) for one in plan.strata}
