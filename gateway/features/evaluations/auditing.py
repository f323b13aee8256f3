"""The part of the evaluation events in an auditor: sends what waits in the store, and counts it."""

import time
from collections.abc import Mapping, Sequence

from prometheus_client.core import Metric

from gateway.auditor.part import AuditorContext, AuditorPart, Periodic, counter, gauge, put
from gateway.features.evaluations import store
from gateway.features.evaluations.sending import EvaluationEvents
from gateway.store import counters

SEND_SECONDS = 1.0
"""Pause between two looks at what waits."""


class EvaluationsPart(AuditorPart):
    """Sends from one store."""

    def __init__(self, context: AuditorContext) -> None:
        """Raises ConfigError when the events could never be sent."""
        self._database = context.database
        self._events = EvaluationEvents(context.config, context.database, context.stop)

    def periodic(self) -> Sequence[Periodic]:
        return [Periodic(SEND_SECONDS, self._events)]

    async def families(self) -> Sequence[Metric]:
        totals = await counters.read(self._database, (store.COUNTER,))
        oldest = await store.oldest(self._database)
        return families(totals, 0.0 if oldest is None else max(0.0, time.time() - oldest))

    async def aclose(self) -> None:
        self._events.close()


def families(totals: Mapping[tuple[str, tuple[str, ...]], float], lag_seconds: float) -> Sequence[Metric]:
    """Return the metric families of evaluation events.

    Args:
        totals: the counter of events by outcome.
        lag_seconds: age of the oldest audit whose events wait; 0 when none waits.
    """
    words = "Events (docs/operations.md#evaluation-events): exported, rejected by the collector, dropped (too old)."
    events = counter("evaluation_events", words, ("outcome",))
    for (_, labels), total in sorted(totals.items()):
        events.add_metric(labels, total)
    lag = gauge("evaluation_events_lag_seconds", "Age of the oldest audit whose events wait; else 0.", ())
    put(lag, (), lag_seconds)
    return [events, lag]
