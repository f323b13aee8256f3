"""The page at /metrics, of either role: a registry with one collector, in the format that the scraper asks for."""

import re
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from gateway.turns import in_turns


@runtime_checkable
class WithText(Protocol):
    """A collector that has some families as text already."""

    def text(self, *, is_openmetrics: bool) -> bytes:
        """Whole families, in OpenMetrics or in Prometheus' own format."""


_OPENMETRICS = "application/openmetrics-text"
_END = b"# EOF\n"
_HEAD = re.compile(rb"\A(# .*\n)+")


class Exposition:
    """A registry with one role's families, and its page for a scraper: the gateway's and the auditor's /metrics."""

    def __init__(self, collector: Collector) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(collector)
        self._collector = collector

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return (body, content type) as the Accept header asks. Neighbours of one name are one family."""
        encode, content_type = choose_encoder(accept)
        is_openmetrics = content_type.startswith(_OPENMETRICS)
        pieces = await in_turns(lambda family: (family.name, encode(_Only(family))), self._collector.collect())
        parts, before = [], ""
        for name, text in pieces:
            parts.append(text.removesuffix(_END) if name != before else _HEAD.sub(b"", text.removesuffix(_END)))
            before = name
        if isinstance(self._collector, WithText):
            parts.append(self._collector.text(is_openmetrics=is_openmetrics))
        return b"".join((*parts, _END if is_openmetrics else b"")), content_type


class _Only(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        yield self._family


MOST_CHARACTERS = 128
"""Most characters of an exemplar's labels (OpenMetrics 1.0); Prometheus drops longer exemplars."""


def exemplar(request_id: str, trace_id: str, value: float, at: float) -> Exemplar | None:
    """Return the exemplar; None for a request id that is too long or not plain text. `trace_id` "": none."""
    labels = {"request_id": request_id} | ({"trace_id": trace_id} if trace_id else {})
    if not (request_id.isascii() and request_id.isprintable()):
        return None
    return Exemplar(labels, value, at) if sum(map(len, (*labels, *labels.values()))) <= MOST_CHARACTERS else None
