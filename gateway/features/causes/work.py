"""Keeps all that is known so far of the cause of a single alarm: numbers and digests, no text."""

from typing import Literal

import msgspec

MOST_ASKED = 200
"""Exchanges of before that are asked again."""
MOST_BESIDE = 100
"""Further exchanges of before that are asked again: about other groups, which a new answer may bring in."""
LEAST_ASKED = 30
"""Exchanges of before and of since that a split needs."""
MOST_SINCE = 300
"""Exchanges of since that a split uses: the first after the alarm, which the alarm did not choose."""

PartName = Literal["judge", "model", "traffic", "application"]
Status = Literal["pending", "told", "cannot_be_told"]


class Row(msgspec.Struct, kw_only=True):
    """An exchange of before or of since."""

    id: str
    weight: float
    opening: str = ""
    """Digest of its conversation's opening, up to the first answer."""
    is_first: bool = True
    """True for the first turn of a conversation."""
    fingerprint: str = ""
    """Digest of its system prompt and of the fields that shape an answer."""
    is_beside: bool = False
    """True for an exchange of before in whose answer the group of the series did not come up."""
    then: float | None = None
    """Scores on 0..1; None for an answer without a score. `then` was recorded."""
    again: float | None = None
    anew: float | None = None
    crossed: float | None = None
    is_answered: bool = False
    """True once it was asked again."""
    is_crossed: bool = False
    """True once it was asked under the other side's conditions, in vain or not."""
    why_left_out: str | None = None
    """Why it cannot be asked again; None if it can, or was."""


class Work(msgspec.Struct, kw_only=True):
    """The state of the work on an alarm."""

    alarm_since: float
    metric: str
    status: Status = "pending"
    reason: str | None = None
    begun_at: float = 0.0
    is_over: bool = False
    """True once nothing more will be asked."""
    before: list[Row] = []
    since: list[Row] = []
    asked: int = 0
    shift: float | None = None
    """Shift in the metric's own unit, as are the parts: name, value, lower and upper end."""
    parts: list[tuple[PartName, float, float, float]] = []

    @property
    def waiting(self) -> list[Row]:
        """Return the rows of before that are still to be asked again."""
        return [row for row in self.before if not row.is_answered and row.why_left_out is None]

    @property
    def answered(self) -> list[Row]:
        return [row for row in self.before if row.is_answered]

    def give_up(self, reason: str) -> "Work":
        return msgspec.structs.replace(self, status="cannot_be_told", reason=reason, is_over=True)

    def pending(self, reason: str) -> "Work":
        return self if self.status == "told" else msgspec.structs.replace(self, status="pending", reason=reason)

    def left_out(self) -> str:
        reasons = [row.why_left_out for row in self.before if row.why_left_out]
        return f"; most often: {max(set(reasons), key=reasons.count)}" if reasons else ""
