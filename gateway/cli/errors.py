"""Where an error of the benchmarks becomes one the command line knows how to print."""

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
