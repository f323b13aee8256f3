"""Several replies to one item in one request (`n`), where a server draws them: it reads the prompt once for all.

The replies are independent, as those to requests of their own: no seed is sent. Where there is nothing to draw, at
temperature 0 or at a temperature that the server chooses, each reply is asked for by itself; so it is from a server
that refuses `n` or takes it and sends one reply.
"""

from collections.abc import Sequence

import msgspec

from auditors.types import Completer, Completion, CompletionError, CompletionRequest

MOST_AT_ONCE = 8
"""Replies asked for in one request, and"""
SHARE_OF_FLIGHT = 8
"""of those that may be in flight at most such a part: who asks for few at a time gets few."""
NOT_ASKED = {"requests": 0}
"""The `usage` of a reply that came with another, which has the cost of both."""


def most_at_once(in_flight: int) -> int:
    """Replies of one item to ask for in one request, by how many requests of the run may be in flight."""
    return max(1, min(MOST_AT_ONCE, in_flight // SHARE_OF_FLIGHT))


class Draws:
    """Remembers of one server whether it draws several."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        self._draws_several = True

    async def complete(self, request: CompletionRequest, n: int) -> Sequence[Completion]:
        """One to `n` replies to a request. Raises CompletionError."""
        if n == 1 or not self._draws_several or not request.temperature:
            return [await self._completer.complete(request)]
        several = msgspec.structs.replace(request, extra={**request.extra, "n": n})
        try:
            first = await self._completer.complete(several)
        except CompletionError as exc:
            if exc.status_code not in (400, 422):
                raise
            self._draws_several = False
            return [await self._completer.complete(request)]
        self._draws_several = bool(first.further)
        others = [msgspec.structs.replace(one, usage=NOT_ASKED) for one in first.further[: n - 1]]
        return [first, *others]
