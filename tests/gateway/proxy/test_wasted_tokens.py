"""What a request that was cut off has cost, estimated from its body and its time."""

import pytest

from gateway.proxy.wasted_tokens import WastedTokens, wasted_tokens


@pytest.mark.parametrize(
    ("body", "seconds", "pace", "expected"),
    [
        (b'{"max_tokens": 64}', 1.0, 0.1, WastedTokens(5, 10)),
        (b'{"max_tokens": 64}', 100.0, 0.1, WastedTokens(5, 64)),
        (b'{"max_completion_tokens": 8, "max_tokens": 64}', 100.0, None, WastedTokens(12, 8)),
        (b'{"a": 1}', 1.0, None, WastedTokens(2, 50)),
        (b"no json!", 0.0, None, WastedTokens(2, 0)),
        (b'{"max_tokens": "x"}', -1.0, None, WastedTokens(5, 0)),
    ],
)
def test_estimate(body: bytes, seconds: float, pace: float | None, expected: WastedTokens) -> None:
    """Four bytes a token of the prompt; a token each pace of the time, never more than the reply's limit."""
    assert wasted_tokens(body, seconds, pace) == expected
