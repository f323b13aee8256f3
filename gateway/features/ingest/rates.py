"""Reads and bounds the sampling rates that senders state; an exchange's weight is the inverse of its rate.
A stated rate counts if the sender's key has `may_state_rate` and `ingest.sampling_rate` is unset. Any other is counted
and never read: it changes no number and rejects no exchange.
"""

import re
from typing import Any

from gateway.features.ingest.config import MIN_SAMPLING_RATE, IngestConfig
from gateway.features.ingest.received import UnreadableError
from gateway.proxy.admission import Client

RATE_HEADER = "x-biasgate-sampling-rate"
"""Header of a request to a door: the rate of each exchange in it that states none itself."""
LARGEST_RATE = 1.0
_DECIMAL = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_THRESHOLD = re.compile(r"[0-9a-f]{1,14}", re.ASCII)
_THRESHOLD_DIGITS = 14
_THRESHOLDS = 1 << 56
_MOST_MEMBERS = 32
"""W3C Trace Context allows no more members in a tracestate."""
_LONGEST_SHOWN = 40


class Rates:
    """Rules for the sampling rates in one request. `is_believed`: its rates count. `smallest`: least rate, in (0, 1].
    `header`: RATE_HEADER's value. Raises UnreadableError if it counts and states no rate in [smallest, 1].
    """

    def __init__(
        self, *, is_believed: bool = False, smallest: float = MIN_SAMPLING_RATE, header: str | None = None
    ) -> None:
        self._is_believed = is_believed
        self._smallest = smallest
        self._has_ignored_header = not is_believed and _is_stated(header)
        self.n_ignored = 0
        """Exchanges, or parts of them, that state a rate which does not count."""
        self.of_request: float | None = None
        """The rate of an exchange that states none itself, from the header; None while it is unknown."""
        if is_believed and _is_stated(header):
            self.of_request = self._bounded(read_number(header), header, RATE_HEADER)

    def of_exchange(self, value: Any, where: str) -> float | None:
        """Return an exchange's stated rate; None if unknown. Raises UnreadableError, with `where`, for a bad one."""
        if not self._is_believed:
            self.ignore(value)
            return None
        return self._bounded(read_number(value), value, where) if _is_stated(value) else self.of_request

    def of_threshold(self, digits: str | None) -> float | None:
        """Return the rate by `th` of OpenTelemetry's tracestate; None if unknown. Raises UnreadableError."""
        if not self._is_believed:
            self.ignore(digits)
            return None
        if digits is None:
            return self.of_request
        return self._bounded(read_threshold(digits), digits, "the threshold th of the tracestate")

    def ignore(self, value: Any) -> None:
        """Count a rate that does not count because of its place or its sender."""
        self.n_ignored += _is_stated(value) or self._has_ignored_header

    def _bounded(self, rate: float | None, value: Any, where: str) -> float:
        if rate is not None and self._smallest <= rate <= LARGEST_RATE:
            return rate
        raise UnreadableError(
            f"{where} is {_describe_value(value)!r}: give the share of exchanges that are sent, from "
            f"{self._smallest:g} "
            "(ingest.min_sampling_rate) to 1"
        )


def rates_of(client: Client, config: IngestConfig, header: str | None) -> Rates:
    """Return the rules for one request with this client's key. Raises UnreadableError as `Rates` does."""
    is_believed = client.may_state_rate and config.sampling_rate is None
    return Rates(is_believed=is_believed, smallest=config.min_sampling_rate, header=header)


def read_number(value: Any) -> float | None:
    """Return a finite number that is written as a number, or as a decimal in ASCII digits without a sign; else None."""
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST_RATE else None  # also None for NaN; float() of a huge int would raise


def read_threshold(digits: str) -> float | None:
    """Return a threshold's sampling probability (2^56 - T) / 2^56, in (0, 1]; None but for 1 to 14 hex digits. Source:
    https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/.
    """
    if not _THRESHOLD.fullmatch(digits):
        return None
    return (_THRESHOLDS - int(digits.ljust(_THRESHOLD_DIGITS, "0"), 16)) / _THRESHOLDS


def threshold_in(trace_state: str) -> str | None:
    """Return the digits of `th` in the member `ot` of a W3C tracestate; None without it. Source:
    https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/.
    """
    for member in trace_state.split(",")[:_MOST_MEMBERS]:
        vendor, _, fields = member.strip(" \t").partition("=")
        if vendor == "ot":
            for field in fields.split(";"):
                key, _, digits = field.partition(":")
                if key == "th":
                    return digits
    return None


def _is_stated(value: Any) -> bool:
    return value is not None and value != ""


def _describe_value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_LONGEST_SHOWN:
        return "a number of more than 40 digits"  # str() of a huge int raises
    return str(value)[:_LONGEST_SHOWN] if isinstance(value, str | int | float) else type(value).__name__
