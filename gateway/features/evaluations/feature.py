"""The feature `evaluations`: traces, and measurements as evaluation events, in an OpenTelemetry collector."""

from typing import TYPE_CHECKING

from gateway.feature import Feature

if TYPE_CHECKING:
    from gateway.config.schema import Config
    from gateway.proxy.instrumentation import Tracer


class Evaluations(Feature):
    """See docs/integrations/opentelemetry.md."""

    name = "evaluations"
    auditor_part = "gateway.features.evaluations.auditing:EvaluationsPart"

    def check(self, config: "Config") -> None:
        telemetry = config.telemetry
        if telemetry.otlp_endpoint is not None and telemetry.evaluation_signal is not None:
            from gateway.features.evaluations import otlp

            otlp.require_installed(telemetry.otlp_endpoint)

    def environment(self, config: "Config") -> frozenset[str]:
        if config.telemetry.evaluation_signal is None:
            return frozenset()
        from gateway.features.evaluations import otlp

        return otlp.VARIABLES

    def tracer(self, config: "Config") -> "Tracer | None":
        if config.telemetry.otlp_endpoint is None:
            return None
        from gateway.features.evaluations import tracing

        return tracing.Tracer(config.telemetry.otlp_endpoint)
