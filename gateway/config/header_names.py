"""Names the headers of a client that reach an upstream as they are, so that a configuration may name them."""

import re

_TAKEN = frozenset({"authorization", "connection", "content-length", "cookie", "host", "traceparent", "x-request-id"})
_NAME = re.compile(r"(?!x-biasgate-)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.IGNORECASE)


def is_passed_on(name: str) -> bool:
    """Return whether the gateway neither reads nor replaces a header of this name."""
    return bool(_NAME.fullmatch(name)) and name.lower() not in _TAKEN
