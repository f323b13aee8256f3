"""The base of our live auditors: their measurements and failures, under their name and version."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from auditors.text.conversation import NotAuditableError
from auditors.text.swaps.outcome import NotSwapped
from auditors.types import AuditFailure, Completer, Exchange, FailureKind, Measurement, Status


class MeasuringAuditor(ABC):
    """Audits an exchange, or says why it cannot be audited."""

    name: ClassVar[str]
    version: ClassVar[str]

    async def audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Measurements, each with a value or a status and reason."""
        try:
            return await self._audit(exchange)
        except NotAuditableError as exc:
            return msgspec.structs.replace(self._failure("not_auditable", str(exc)), reason=exc.reason)

    def missing(self, exchange: Exchange) -> list[Measurement]:
        """Measurements that an audit which was cut short, or failed, leaves open; see `KnowsWhatIsMissing`."""
        try:
            return self._missing(exchange)
        except NotAuditableError:
            return []

    @abstractmethod
    async def _audit(self, exchange: Exchange) -> list[Measurement] | AuditFailure:
        """Audit an exchange as `audit` does. Raises NotAuditableError."""

    @abstractmethod
    def _missing(self, exchange: Exchange) -> list[Measurement]:
        """Return missing values as `missing` does. Raises NotAuditableError."""

    def _measurement(
        self,
        metric: str,
        axis: str | None,
        group: str | None = None,
        value: float | None = None,
        status: Status = "ok",
        reason: str | None = None,
        **further: Any,
    ) -> Measurement:
        return Measurement(
            auditor=self.name,
            auditor_version=self.version,
            metric=metric,
            axis=axis,
            group=group,
            value=value,
            status=status,
            reason=reason,
            **further,
        )

    def _unswapped(self, why: NotSwapped, metric: str, **detail: Any) -> Measurement:
        """Counted in the series that a swap would have entered, where that can be told."""
        axis = why.axis if why.group else None
        return self._measurement(
            metric, axis, why.group, None, "unrelated", f"not swapped: {why.reason}", detail=detail
        )

    def _failure(self, kind: FailureKind | None, message: str, missing: Sequence[Measurement] = ()) -> AuditFailure:
        return AuditFailure(
            auditor=self.name,
            auditor_version=self.version,
            kind=kind or "unavailable",
            message=message,
            missing=missing,
        )


class ProbingAuditor(MeasuringAuditor):
    """Asks the upstream of an exchange again, a few questions at a time."""

    def __init__(
        self, completer_for: Callable[[Exchange], Completer], *, max_tokens: int = 256, max_concurrency: int = 4
    ) -> None:
        """`completer_for` asks behind live traffic; `max_tokens`: an answer's; `max_concurrency`: of all exchanges."""
        self._completer_for = completer_for
        self._max_tokens = max_tokens
        self._slots = asyncio.Semaphore(max_concurrency)
