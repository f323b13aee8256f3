"""GET /live/alarms/{stream}/cause: what makes up the shift behind an alarm, as numbers and as a sentence."""

import msgspec
from litestar import Controller, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath

from auditors.structs import combine
from gateway.api.dependencies import Store
from gateway.api.problems import announced
from gateway.console.rendering import number, words
from gateway.errors import NotFoundError
from gateway.features.causes import store
from gateway.features.causes.store import PartName, Status, Work

NAMES = {"judge": "the judge", "model": "the model", "traffic": "traffic", "application": "the application"}
STEPS = {
    "judge": "Check the judge before the model: it scores the same answers otherwise than before",
    "model": "Ask who serves the model what changed: it answers the same prompts otherwise than before",
    "traffic": "Find out who sends other prompts than before: the same model is asked something else",
    "application": "Ask the application's owner what changed in its system prompt, sampling fields or tools",
}
"""The first step where a part makes most of a shift."""
WAITING = "no auditor has looked at it yet"


class ShownPart(msgspec.Struct, frozen=True):
    """A part of the shift in the metric's own unit, with its 95 % interval."""

    part: PartName
    value: float
    lower: float
    upper: float


class ShownCause(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the shift from before an alarm's change to since its alarm."""

    status: Status
    shift: float | None = None
    """Mean of since minus mean of before, of the exchanges compared; the parts add up to it."""
    parts: list[ShownPart] = []
    n_before: int = 0
    """Exchanges of before that were asked again; of a gap, those of the side with fewer."""
    n_since: int = 0
    """Exchanges since the alarm, likewise."""
    asked: int = 0
    """Requests to the served model."""
    reason: str | None = WAITING
    """Why there are no parts, or not yet; null once they are told."""
    sentence: str = ""


def shown_cause(work: Work | None) -> ShownCause:
    """Return the form of a piece of work; None: none has begun."""
    if work is None:
        cause = ShownCause(status="pending")
    else:
        cause = combine(
            ShownCause,
            work,
            parts=[ShownPart(*part) for part in work.parts],
            n_before=work.least(work.answered),
            n_since=work.least(work.since),
        )
    return msgspec.structs.replace(cause, sentence=_sentence(cause, work.group if work else ""))


def _sentence(cause: ShownCause, group: str) -> str:
    """Return what each part makes of the shift, the largest first, or why that is not known."""
    if cause.status != "told" or cause.shift is None:
        verb = "cannot be told" if cause.status == "cannot_be_told" else "cannot be told yet"
        return f"What caused it {verb}: {cause.reason}."
    sign = 1.0 if cause.shift >= 0.0 else -1.0
    texts: list[str] = []
    for part in sorted(cause.parts, key=lambda part: -sign * part.value):
        lower, upper = sorted((sign * part.lower, sign * part.upper))
        verb = "" if texts else "makes "
        interval = "" if lower == upper else f" ({number(lower, 2)} to {number(upper, 2)})"
        texts.append(f"{NAMES[part.part]} {verb}{number(sign * part.value, 2)}{interval}")
    of_gap = f" of the gap between {words(group)} and the others" if group else ""
    return f"Of the {'rise' if sign > 0 else 'fall'} of {number(abs(cause.shift), 2)}{of_gap}, {', '.join(texts)}."


def first_step(cause: ShownCause) -> str:
    """Return what to do first: a part makes at least half of the shift, and surely some of it; empty if none does."""
    shift = cause.shift or 0.0
    large = (part for part in cause.parts if part.value / (shift or 1.0) >= 0.5 and part.lower * part.upper > 0.0)
    return next((STEPS[part.part] for part in large), "")


class CausesController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live/alarms"
    tags = ("live",)

    @get(
        "/{stream_id:str}/cause",
        summary="The parts of judge, model, traffic and application in an alarm's shift (docs/drift.md)",
        responses={200: ResponseSpec(ShownCause, description="The cause", generate_examples=False)} | announced(404),
    )
    async def cause(self, database: Store, stream_id: FromPath[str]) -> ShownCause:
        """Return the cause of the alarm that stands. A part that is not known yet is in no list: see `reason`."""
        since = (await store.alarmed(database)).get(stream_id)
        if since is None:
            name = stream_id[:100]
            raise NotFoundError(f'no alarm of the stream "{name}" stands: GET /live/alarms lists those that do')
        return shown_cause(await store.of_alarm(database, stream_id, since))
