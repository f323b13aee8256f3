"""The plan from which a canary draws its pairs, fixed before the first pair."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.features.canary.request import DIRECTIONS, FAILURE_RATE, REFUSAL_RATE, Gap

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
    """The upstreams of both sides, and the exchanges that they are asked about."""

    upstreams: dict[str, str]
    """Name of the upstream, by side."""
    fingerprints: dict[str, str | None]
    """Fingerprint of the model served at the start, by side; None where the upstream did not say."""
    strata: list[Stratum]
    n_looked_at: int
    """Stored exchanges of the stable model that were looked at, newest first."""
    left_out: dict[str, int]
    """"axis/group", or that and a metric, to how many exchanges: too few."""

    @property
    def gaps(self) -> list[Gap]:
        compared = [Gap(each.auditor, metric, each.axis, each.group) for each in self.strata for metric in each.metrics]
        for auditor in dict.fromkeys(stratum.auditor for stratum in self.strata):
            if auditor == ANSWERS_IN_WORDS:
                compared.append(Gap(auditor, REFUSAL_RATE))
            compared.append(Gap(auditor, FAILURE_RATE))
        return compared


class Due(NamedTuple):
    """The metrics that an auditor owes about an exchange."""

    exchange_id: str
    auditor: str
    axis: str
    group: str
    metrics: Sequence[str]


def strata_of(due: Iterable[Due]) -> tuple[list[Stratum], dict[str, int]]:
    """The strata, and what is left out for being about too few exchanges."""
    ids: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    owed: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for entry in due:
        key = entry.auditor, entry.axis, entry.group
        ids[key].append(entry.exchange_id)
        owed[key].update(entry.metrics)
    strata, left_out = [], {}
    for key in sorted(ids):
        auditor, axis, group = key
        if len(ids[key]) < LEAST_EXCHANGES:
            left_out[f"{auditor} {axis}/{group}"] = len(ids[key])
            continue
        enough = [metric for metric in DIRECTIONS if owed[key][metric] >= LEAST_EXCHANGES]
        for metric, n in owed[key].items():
            if metric in DIRECTIONS and metric not in enough:
                left_out[f"{metric} {axis}/{group}"] = n
        strata.append(Stratum(auditor=auditor, axis=axis, group=group, metrics=enough, exchange_ids=sorted(ids[key])))
    return strata, left_out


def drawn(plan: Plan, canary_id: str, number: int) -> tuple[Stratum, str]:
    """Draw a stratum and an exchange, uniformly with replacement; id and number decide, so a restart goes on."""
    digest = hashlib.sha256(f"{canary_id}:{number}".encode()).digest()
    stratum = plan.strata[int.from_bytes(digest[:8]) % len(plan.strata)]
    return stratum, stratum.exchange_ids[int.from_bytes(digest[8:16]) % len(stratum.exchange_ids)]


def described(plan: Plan) -> Mapping[str, int]:
    """Counts the exchanges to draw from, by auditor, axis and group."""
    return {f"{stratum.auditor} {stratum.axis}/{stratum.group}": len(stratum.exchange_ids) for stratum in plan.strata}
