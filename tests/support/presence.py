"""Values that a test needs to be there, and what an audit came to, narrowed for the type checker."""

from typing import TypeVar

from auditors.types import AuditFailure, Measurement

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value


def measured(result: list[Measurement] | AuditFailure) -> list[Measurement]:
    """The measurements of an audit that did not fail."""
    assert isinstance(result, list), result
    return result


def values(result: list[Measurement] | AuditFailure) -> dict[str, float | None]:
    """The value of each metric of an audit that did not fail."""
    return {measurement.metric: measurement.value for measurement in measured(result)}


def failed(result: list[Measurement] | AuditFailure) -> AuditFailure:
    """The failure of an audit."""
    assert isinstance(result, AuditFailure), result
    return result
