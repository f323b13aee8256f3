"""A compressed request body: decompressed to be looked at, and relayed only as it is.

vLLM does not decompress requests, but a proxy in front of it may, so what is not allowed in a body is not allowed in a
compressed one.
"""

from collections.abc import Mapping

from auditors.clients.inflating import InflateError, Inflater
from gateway.proxy.body import BodyLimit, RequestBody, read_body
from gateway.proxy.refusals import Refusal, encoded_body_to_change

MOST_INFLATED_BYTES = 4 * 1024 * 1024
"""Decompressed in 15 ms of a worker's time. A larger body has to be sent uncompressed."""


def read_encoded_body(
    content: bytes, coding: str, aliases: Mapping[str, str], *, may_set_priority: bool
) -> RequestBody | Refusal:
    """Read what a compressed body names, as `read_body` does, and leave the body as it is.

    Refused is what `read_body` refuses or changes, and what is too large when it is decompressed. What cannot be
    decompressed to its end is judged by its beginning, as a more lenient reader would see it.
    """
    plain = _inflate(content, coding)
    refusal = BodyLimit(MOST_INFLATED_BYTES).refusal(plain, plain)
    if refusal is not None:
        return encoded_body_to_change(f"more than {MOST_INFLATED_BYTES} bytes or too many values when decompressed")
    seen = read_body(plain, aliases, may_set_priority=may_set_priority)
    if isinstance(seen, Refusal):
        return seen
    if seen.content != plain:
        return encoded_body_to_change("a priority that its key may not set, or a model with an alias")
    return RequestBody(content, seen.model, seen.served_model, seen.stream)


def _inflate(content: bytes, coding: str) -> bytes:
    """Decompress a body, up to one piece beyond MOST_INFLATED_BYTES."""
    inflater, plain = Inflater(coding), bytearray()
    try:
        for piece in inflater.pieces(content):
            plain += piece
            if len(plain) > MOST_INFLATED_BYTES:
                break
    except InflateError:
        pass
    return bytes(plain)
