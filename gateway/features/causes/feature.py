"""The feature `causes`: what of an alarm's shift the judge, the model, the traffic and the application make."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from gateway.feature import AlarmCause, AlarmFinding, Feature

if TYPE_CHECKING:
    from gateway.store.database import Database


class Causes(Feature):
    """See docs/drift.md#the-cause-of-an-alarm."""

    name = "causes"
    controllers = ("gateway.features.causes.shown:CausesController",)
    routes = {"GET /live/alarms/{stream_id}/cause": "VIEWER"}
    auditor_part = "gateway.features.causes.passes:CausesPart"

    async def alarm_causes(self, database: "Database", stream: str, since: float | None) -> Sequence[AlarmCause]:
        from gateway.features.causes import store
        from gateway.features.causes.shown import first_step, shown_cause

        cause = shown_cause(await store.of_alarm(database, stream, since))
        return [AlarmCause(cause.sentence, first_step(cause))]

    async def alarm_findings(self, database: "Database", told: Container[tuple[str, float]]) -> Sequence[AlarmFinding]:
        from gateway.features.causes import store
        from gateway.features.causes.shown import shown_cause

        findings = []
        for stream, work in (await store.standing(database, told)).items():
            if work.status != "pending":
                cause = shown_cause(work)
                finding = AlarmFinding(
                    stream, work.alarm_since, "drift_cause", cause.shift, cause.sentence, work.is_over
                )
                findings.append(finding)
        return findings
