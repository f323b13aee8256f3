"""The page at /metrics, of either role: a registry with one collector, in the format that the scraper asks for."""

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.telemetry import protobuf


@runtime_checkable
class WithText(Protocol):
    """A collector that has some families as text already."""

    def text(self, *, is_openmetrics: bool) -> bytes:
        """Whole families, in OpenMetrics or in Prometheus' own format."""
        ...


_END = b"# EOF\n"
"""Of a page in OpenMetrics."""


class Exposition:
    """A registry with one role's families, and its page for a scraper: the gateway's and the auditor's /metrics."""

    def __init__(self, collector: Collector, *, with_native: Callable[[], Iterable[Metric]] | None = None) -> None:
        """`with_native`: the families with native histograms, for scrapers that ask for protobuf."""
        self._with_native = with_native
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(collector)
        self._collector = collector

    def render(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) in the format that the scraper's Accept header asks for."""
        if self._with_native is not None and protobuf.is_wanted(accept):
            return protobuf.encode(self._with_native()), protobuf.CONTENT_TYPE
        encode, content_type = choose_encoder(accept)
        body = encode(self.registry)
        if isinstance(self._collector, WithText):
            is_openmetrics = body.endswith(_END)
            more = self._collector.text(is_openmetrics=is_openmetrics)
            body = body.removesuffix(_END) + more + (_END if is_openmetrics else b"")
        return body, content_type
