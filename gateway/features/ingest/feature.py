"""The feature `ingest`: exchanges that others relayed and recorded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature
from gateway.features.ingest.config import INGEST, check_ingest

if TYPE_CHECKING:
    from litestar import Router

    from gateway.config.schema import Config


class Ingest(Feature):
    """See docs/ingest.md."""

    name = "ingest"
    sections = (INGEST,)
    commands = {
        "ingest": Command(
            "gateway.features.ingest.cli", "send a file of exchanges that something else recorded to a running gateway"
        )
    }
    routes = {
        f"POST /ingest/{door}": "SENDER"
        for door in ("http", "litellm", "litellm/beta/litellm_basic_guardrail_api", "otlp/v1/logs", "otlp/v1/traces")
    }
    worker_part = "gateway.features.ingest.guardrail:IngestPart"

    def check_sections(self, config: "Config") -> None:
        check_ingest(config)

    def weight_share(self, config: "Config") -> float:
        section = INGEST.of(config)
        # A configured rate is the operator's own, as the rates of [sampling] are.
        return section.max_weight_share if section.sampling_rate is None else 1.0

    def routers(self) -> Sequence["Router"]:
        from litestar import Router

        from gateway.features.ingest.api import IngestController

        return [Router("/", route_handlers=[IngestController], request_max_body_size=None)]
