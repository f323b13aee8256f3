"""Converts the benchmarks' errors to the gateway's, which the command line prints as one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.errors import BenchmarkError
from gateway.errors import GatewayError


@contextmanager
def as_gateway_errors() -> Iterator[None]:
    """Turns a BenchmarkError into a GatewayError with the same line."""
    try:
        yield
    except BenchmarkError as exc:
        raise GatewayError(str(exc)) from exc
