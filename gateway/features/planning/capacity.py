"""Traffic times unit costs: what each part needs, where one of it is full, and which is first."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gateway.features.planning import unit_costs as costs
from gateway.features.planning.unit_costs import Cost

MONTH, YEAR, DAY = 30 * 86400.0, 365 * 86400.0, 86400.0
MILLION, GIGA, KILO = 1e6, 1e9, 1e3


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic that is to be carried, and how it is audited."""

    requests_per_second: float
    rate: float
    """Share of the requests that is sampled."""
    auditors: Mapping[str, float]
    """Names to their own rates."""
    prompt_tokens: float
    answer_tokens: float
    streamed: float
    """Share of answers that are streamed."""
    store: str
    retention_days: float
    models: int
    price_in: float
    """Dollars for a million tokens."""
    price_out: float
    judge_seconds: float | None
    """That a judgement takes; None: as measured."""
    max_concurrency: int
    """Most requests of each auditor that the judge answers at once."""
    budgets: Mapping[str, float]
    """Tokens a minute that an auditor process may spend, by name; without an entry any number."""


class Range(NamedTuple):
    """A range from the cheapest to the dearest that was measured."""

    low: float
    high: float

    def times(self, other: "Cost | Range | float") -> "Range":
        if isinstance(other, int | float):
            return Range(self.low * other, self.high * other)
        return Range(self.low * other.low, self.high * other.high)

    def plus(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    @classmethod
    def of(cls, cost: Cost) -> "Range":
        return cls(cost.low, cost.high)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that traffic needs."""

    name: str
    needs: Range
    unit: str
    one: str = ""
    """Unit of the part that can be full, in words; empty where nothing fills."""
    full_at: Range | None = None
    """Requests a second at which one is full, all else as it is."""
    then: str = ""
    sources: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All parts."""

    traffic: Traffic
    sampled_per_second: float
    judge_dollars_a_month: Range
    parts: tuple[Part, ...]

    @property
    def limits(self) -> list[Part]:
        """Parts that can be full, the first to fill first."""
        limiting = [part for part in self.parts if part.full_at is not None]
        return sorted(limiting, key=lambda part: part.full_at.low if part.full_at else 0.0)


def plan(traffic: Traffic) -> Plan:
    """Computes the parts that the traffic needs, and the cost of the judge."""
    judged = traffic.requests_per_second * traffic.rate * traffic.auditors.get("judge", 0.0)
    texts = traffic.prompt_tokens, traffic.answer_tokens
    tokens_read = [min(tokens, part) for part in (costs.JUDGE_PART.low, costs.JUDGE_PART.high) for tokens in texts]
    tokens_in = Range.of(costs.JUDGE_PROMPT).plus(Range(sum(tokens_read[:2]), sum(tokens_read[2:])))
    tokens_out = Range.of(costs.JUDGE_REPLY)
    dollars = tokens_in.times(traffic.price_in).plus(tokens_out.times(traffic.price_out))
    kilobytes = (traffic.prompt_tokens + traffic.answer_tokens) * costs.TEXT_BYTES / KILO
    events = traffic.streamed * traffic.answer_tokens
    relayed = Range.of(costs.RELAY_REQUEST).plus(Range.of(costs.RELAY_KILOBYTE).times(kilobytes))
    relayed = relayed.plus(Range.of(costs.RELAY_EVENT).times(events))
    copied = Range.of(costs.COPY).plus(Range.of(costs.COPY_EVENT).times(events)).times(traffic.rate)
    gateway = [
        _part(
            *("relay", relayed, "cores", "worker"),
            then="server.workers up to the cores, then further gateways behind a balancer: they share nothing but the "
            "store",
            sources=(costs.RELAY_REQUEST, costs.RELAY_KILOBYTE, costs.RELAY_EVENT),
        ),
        _part(
            *("writer", copied, "cores", "writer"),
            then="each gateway has one writer: further gateways. Leave it a core: where workers fill all of them "
            "it stores some twenty copies a second, and the recorded rate falls",
            sources=(costs.COPY, costs.COPY_EVENT),
        ),
    ]
    of_a_request = (*gateway, *_auditing(traffic, tokens_in.plus(tokens_out)), *_estimate_storage(traffic))
    needs = [
        msgspec.structs.replace(part, needs=part.needs.times(traffic.requests_per_second)) for part in of_a_request
    ]
    most = float(sum(costs.AUDITORS[name].series for name in traffic.auditors) * costs.SERIES_FAMILIES * traffic.models)
    sources = ("metrics.md, how many series there can be",)
    count_series = Part(name="Prometheus", needs=Range(0.0, most), unit="live series", sources=sources)
    return Plan(
        traffic=traffic,
        sampled_per_second=traffic.requests_per_second * traffic.rate,
        judge_dollars_a_month=dollars.times(judged * MONTH / MILLION),
        parts=(*needs, count_series),
    )


def _auditing(traffic: Traffic, tokens: Range) -> list[Part]:
    rate = traffic.rate
    audit = Range.of(costs.AUDIT).plus(Range.of(costs.EMBEDDING).times(traffic.auditors.get("embedding", 0.0)))
    settled = costs.SETTLED[traffic.store]
    parts = [
        _part(
            *("auditor", audit.times(rate), "cores", "auditor"),
            then="further auditors on the same PostgreSQL, or a lower rate of the embedding auditor, or its model "
            "served on a GPU",
            sources=(costs.AUDIT, costs.EMBEDDING),
        ),
        _part(
            *("store", Range(rate, rate), "exchanges/s", "store, as far as tried"),
            capacity=settled,
            then="a lower sampling.rate: intervals depend on the number of audits, not on their share of the traffic. "
            "A separate store with gateways for each model settles as much again",
            sources=(settled,),
        ),
    ]
    if traffic.store == "postgresql":
        parts.append(
            _part(
                *("PostgreSQL", Range.of(costs.POSTGRES_EXCHANGE).times(rate), "cores", "core"),
                then="a larger, dedicated server",
                sources=(costs.POSTGRES_EXCHANGE,),
            )
        )
    if judged := rate * traffic.auditors.get("judge", 0.0):
        seconds = costs.JUDGE_SECONDS
        if traffic.judge_seconds is not None:
            seconds = Cost(traffic.judge_seconds, traffic.judge_seconds, "--judge-seconds")
        parts += [
            _part(
                *("judge, in flight", Range.of(seconds).times(judged), "requests", "auditor's max_concurrency"),
                capacity=Cost(float(traffic.max_concurrency), float(traffic.max_concurrency), "--max-concurrency"),
                then="auditors.judge.max_concurrency up to what its server takes, then further auditors, or a lower "
                "auditors.judge.rate",
                sources=(seconds,),
            ),
            _spending(
                *(traffic, "judge", "judge, tokens", tokens.times(judged)),
                sources=(costs.JUDGE_PROMPT, costs.JUDGE_PART, costs.JUDGE_REPLY),
            ),
        ]
    probe = traffic.prompt_tokens + min(traffic.answer_tokens, costs.LONGEST_PROBE)
    for name, own in traffic.auditors.items():
        if n_questions := costs.AUDITORS[name].questions if own else None:
            each = Range.of(n_questions).times(rate * own * probe)
            if each.high:
                parts.append(_spending(traffic, name, f"{name}, tokens", each, sources=(n_questions,)))
    return parts


def _estimate_storage(traffic: Traffic) -> list[Part]:
    text = (traffic.prompt_tokens + traffic.answer_tokens) * costs.TEXT_BYTES
    beside, of_measurement = costs.EXCHANGE_BYTES[traffic.store], costs.MEASUREMENT_BYTES[traffic.store]
    exchange = Range.of(beside).plus(Range.of(costs.STORED_TEXT).times(text))
    n_measurements = Range(0.0, 0.0)
    for name, own in traffic.auditors.items():
        n_measurements = n_measurements.plus(Range.of(costs.AUDITORS[name].measurements).times(own))
    rate, counts = traffic.rate, tuple(costs.AUDITORS[name].measurements for name in traffic.auditors)
    return [
        _free(
            *("disk, exchanges", exchange.times(rate * traffic.retention_days * DAY / GIGA), "GB"),
            sources=(beside, costs.STORED_TEXT),
        ),
        _free(
            *("disk, measurements", n_measurements.times(of_measurement).times(rate * YEAR / GIGA), "GB a year"),
            sources=(of_measurement, *counts),
        ),
        _free(
            *("Parquet export", n_measurements.times(costs.EXPORTED_BYTES).times(rate * YEAR / GIGA), "GB a year"),
            sources=(costs.EXPORTED_BYTES, *counts),
        ),
    ]


def _part(
    name: str, each: Range, unit: str, one: str, *, then: str, sources: tuple[Cost, ...], capacity: Cost | None = None
) -> Part:
    """Builds a part whose units hold `capacity`, by default a core's worth. `each`: need of a request."""
    holds = capacity or Cost(1.0, 1.0, "")
    full_at = Range(holds.low / each.high, holds.high / each.low) if each.low else None
    return Part(name=name, needs=each, unit=unit, one=one, full_at=full_at, then=then, sources=_named(sources))


def _spending(traffic: Traffic, auditor: str, name: str, each: Range, *, sources: tuple[Cost, ...]) -> Part:
    """Tokens of a model: what `token_budget_per_minute` lets through, where there is one."""
    budget = traffic.budgets.get(auditor)
    if budget is None:
        return _free(name, each, "tokens/s", sources=sources)
    return _part(
        *(name, each, "tokens/s", "token budget"),
        capacity=Cost(budget / 60.0, budget / 60.0, ""),
        then=f"a lower auditors.{auditor}.rate, or a higher token_budget_per_minute where its model has room",
        sources=sources,
    )


def _free(name: str, each: Range, unit: str, *, sources: tuple[Cost, ...]) -> Part:
    return Part(name=name, needs=each, unit=unit, sources=_named(sources))


def _named(sources: tuple[Cost, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.source for source in sources))
