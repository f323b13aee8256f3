"""The part of ingest in a worker: the intake of recorded exchanges, and guardrail calls that wait for their answer."""

from collections.abc import Mapping

from gateway.features.ingest.guardrail import GuardrailCalls
from gateway.features.ingest.intake import Intake
from gateway.worker_part import WorkerContext, WorkerPart


class IngestPart(WorkerPart):
    """One worker's."""

    def __init__(self, context: WorkerContext) -> None:
        planes = context.planes
        self.intake = Intake(lambda: planes.current, context.tap, context.open_sink(), context.database, context.stats)
        self.guardrail_calls = GuardrailCalls(self.intake)

    def dependencies(self) -> Mapping[str, object]:
        return {"intake": self.intake, "guardrail_calls": self.guardrail_calls}

    def start(self) -> None:
        self.intake.start()
        self.guardrail_calls.start()

    async def stop(self) -> None:
        await self.guardrail_calls.stop()
        await self.intake.stop()
