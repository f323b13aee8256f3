"""The feature `ingest`: exchanges that others relayed and recorded."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.config.sections import FeatureSection
from gateway.feature import Command, Feature
from gateway.features.ingest.config import INGEST, check_ingest

if TYPE_CHECKING:
    from litestar import Router

    from gateway.config.schema import Config
    from gateway.worker_part import WorkerContext, WorkerPart


class Ingest(Feature):
    """See docs/ingest.md."""

    name = "ingest"

    def sections(self) -> Sequence[FeatureSection[Any]]:
        return [INGEST]

    def check_sections(self, config: "Config") -> None:
        check_ingest(config)

    def weight_share(self, config: "Config") -> float:
        section = INGEST.of(config)
        # A configured rate is the operator's own, as the rates of [sampling] are.
        return section.max_weight_share if section.sampling_rate is None else 1.0

    def commands(self) -> Mapping[str, Command]:
        summary = "send a file of exchanges that something else recorded to a running gateway"
        return {"ingest": Command("gateway.features.ingest.cli", summary)}

    def routers(self) -> Sequence["Router"]:
        from litestar import Router

        from gateway.features.ingest.api import IngestController

        return [Router("/", route_handlers=[IngestController], request_max_body_size=None)]

    def routes(self) -> Mapping[str, str]:
        doors = ("http", "litellm", "litellm/beta/litellm_basic_guardrail_api", "otlp/v1/logs", "otlp/v1/traces")
        return {f"POST /ingest/{door}": "SENDER" for door in doors}

    def worker_part(self, context: "WorkerContext") -> "WorkerPart":
        from gateway.features.ingest.guardrail import IngestPart

        return IngestPart(context)
