"""The unit costs: from the best to the worst of the machines and runs named, each with the page that has it."""

from typing import NamedTuple


class Cost(NamedTuple):
    """A range, and its source: a page of docs/ with its section, or "assumed"."""

    low: float
    high: float
    source: str


RELAY_REQUEST = Cost(29.9e-6, 66e-6, "evidence/performance.md: a request at 16 to 64 connections, three machines")
"""Processor seconds of a gateway for a request without its stream and its bytes."""
RELAY_KILOBYTE = Cost(0.91e-6, 0.95e-6, "evidence/performance.md, closed loop: bodies of 10 and 100 kB, 64 connections")
"""Processor seconds of a gateway for a kilobyte of body."""
RELAY_EVENT = Cost(11.0e-6, 19.8e-6, "evidence/performance.md, streams: 200 and 1,000 streams, two machines")
"""A server-sent event; of chat, one for each token."""
COPY = Cost(150e-6, 270e-6, "evidence/performance.md, storing copies")
"""Processor seconds of a writer for a sampled copy that is not streamed."""
COPY_EVENT = Cost(3.73e-6, 3.80e-6, "evidence/streams.md, one event: folded, then redacted")
AUDIT = Cost(2.0e-3, 2.8e-3, "evidence/scaling.md, transactions: one to four auditors")
"""Processor seconds of an auditor for an exchange that a judge answers at once."""
EMBEDDING = Cost(0.332, 0.542, "evidence/scaling.md, the local embedder")
"""Processor seconds for the nine answers of an exchange, by the local embedder on one thread."""
POSTGRES_EXCHANGE = Cost(0.4e-3, 0.6e-3, "evidence/scaling.md, transactions")
"""Processor seconds of PostgreSQL for an exchange that is settled."""
SETTLED = {
    "postgresql": Cost(275.0, 609.0, "evidence/scaling.md, transactions: one to four auditors on two shared cores"),
    "sqlite": Cost(226.0, 226.0, "evidence/scaling.md, transactions"),
}
"""Exchanges a second that one store was seen to settle where all move the same streams; more was not tried."""
JUDGE_SECONDS = Cost(2.0, 3.0, "evidence/performance.md, waiting requests: simulated; give your server's")
JUDGE_PROMPT = Cost(416.0, 595.0, "length of the judge's own words, at 3.5 to 5 characters a token")
"""Tokens of a judgement's prompt without the exchange."""
JUDGE_PART = Cost(2400.0, 3430.0, "auditors/judge.py: 12,000 characters of a question or an answer, at most")
LONGEST_PROBE = 256.0
"""Tokens of a probe's answer, unless `max_tokens` says otherwise."""
JUDGE_REPLY = Cost(60.0, 60.0, "evidence/live-latency.md: of a model that answers as asked")
TEXT_BYTES = 5.7
"""Bytes of text in a token (evidence/streams.md)."""
EXCHANGE_BYTES = {
    "postgresql": Cost(1_590.0, 3_080.0, "evidence/capacity.md, storage"),
    "sqlite": Cost(430.0, 730.0, "evidence/capacity.md, storage"),
}
"""Bytes of an exchange with its audit, without its text; indexes included."""
STORED_TEXT = Cost(1.0, 1.07, "evidence/capacity.md, storage; evidence/streams.md, what is stored")
"""Bytes stored for a byte of text."""
MEASUREMENT_BYTES = {
    "postgresql": Cost(634.0, 634.0, "evidence/capacity.md, storage"),
    "sqlite": Cost(564.0, 578.0, "evidence/capacity.md, storage"),
}
EXPORTED_BYTES = Cost(12.0, 15.7, "evidence/capacity.md, storage")
"""Bytes of a measurement in Parquet."""
SERIES_FAMILIES = 10
"""Gauges and counters of a live series, the histogram of scores left out (metrics.md)."""


class AuditorCost(NamedTuple):
    """The cost of an exchange to an auditor."""

    questions: Cost
    measurements: Cost
    series: int
    """Label sets for each model, at most (metrics.md)."""
    rate: float


_NONE = Cost(0.0, 0.0, "asks nothing")
_AFFINITY = Cost(4.0, 6.0, "configuration.md, [auditors.affinity]")
_COUNTERFACTUAL = Cost(4.0, 4.0, "auditors.md, counterfactual")
_FIRST_PERSON = Cost(4.0, 5.0, "auditors.md, first_person: answers, or prefills")
_LIKELIHOOD = Cost(2.0, 2.0, "auditors.md, likelihood: prefills")
AUDITORS = {
    "judge": AuditorCost(_NONE, Cost(1.0, 4.0, "assumed: groups that an exchange concerns"), 113, 1.0),
    "embedding": AuditorCost(
        Cost(8.0, 8.0, "operations.md, what audits cost"), Cost(19.0, 19.0, "metrics.md, series"), 19, 1.0
    ),
    "refusal": AuditorCost(_NONE, Cost(1.0, 4.0, "assumed: groups that an exchange names"), 226, 1.0),
    "affinity": AuditorCost(_AFFINITY, Cost(11.0, 11.0, "metrics.md, series"), 11, 0.1),
    "counterfactual": AuditorCost(_COUNTERFACTUAL, Cost(2.0, 8.0, "assumed: metrics by groups swapped"), 390, 0.1),
    "decision": AuditorCost(
        Cost(4.0, 4.0, "configuration.md, [auditors.decision]"), Cost(3.0, 12.0, "assumed: metrics by groups"), 170, 0.1
    ),
    "first_person": AuditorCost(_FIRST_PERSON, Cost(4.0, 9.0, "auditors.md, first_person"), 40, 0.1),
    "likelihood": AuditorCost(_LIKELIHOOD, Cost(5.0, 5.0, "auditors.md, likelihood"), 280, 0.1),
}
