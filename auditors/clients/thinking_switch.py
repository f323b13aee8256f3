"""Asks a model to think as it is set, and finds out from its replies how its server is told so: the first requests try
the forms of `auditors.text.thinking.forms` until one holds; one that is refused later is replaced. A model that thinks
all the same gets room, tokens besides its answer's; a reply that ended within thoughts is asked for again.
"""

import math
from collections.abc import Awaitable, Callable

import msgspec

from auditors.clients.failures import REFUSED_FOR_WORDS, is_for_tokens
from auditors.text.thinking import DEFAULT_BUDGET, Thinking, forms, is_exhausted, merged, reasoning_tokens, told_apart
from auditors.types import Completer, Completion, CompletionError, CompletionRequest, HearsOfJudgements, JudgeOutcome

Send = Callable[[CompletionRequest], Awaitable[Completion]]
Note = Callable[[JudgeOutcome], None]

LEAST_ROOM = 128
"""Tokens of thought below which halving is useless."""
MOST_MODELS = 256
"""Remembered with what their server does; clients may name any number."""

_CHARS_PER_TOKEN = 4
"""Enough to tell longer requests from shorter ones."""


class ThinkingSwitch:
    """The way in which a server is told, for one model, to think or not to think."""

    def __init__(self, thinking: Thinking, *, expects_whole: bool = False) -> None:
        """`expects_whole`: a cut-off reply is of no use; the first in a form is asked for again with room."""
        self.thinking = thinking
        self._forms = forms(thinking)
        self._place = 0
        """Of the form that is sent at present."""
        self._room = 0 if thinking.mode in ("off", "default") else thinking.room
        self._is_obeyed = False
        """Whether a reply came without thoughts."""
        self._is_begun = False
        """The template opens the thoughts and nothing in the reply does: one without a mark is a thought."""
        self._expects_whole = expects_whole
        self._looked = set[int]()
        """Places of forms in which a reply that was cut off was asked for again with room."""
        self._refused_from = dict[int, int]()
        """Room to the length of the shortest request that the server refused it, as vLLM does above a context."""

    async def ask(self, send: Send, request: CompletionRequest, note: Note = lambda _: None) -> Completion:
        """The reply, answer apart from thoughts. `request.max_tokens` are the answer's own; `extra` wins over words
        about thinking; `note` gets each result but the last. Raises as `send`, and "thinking_exhausted".
        """
        place = self._place
        while True:
            room = self._fitting(self._room, request)
            try:
                completion = await self._sent(send, request, place, room)
            except CompletionError as exc:
                if self._is_out_of_room(exc, room, request):
                    note("rejected")
                    continue
                other = self._replacing(place, request, exc)
                if other is None:
                    raise
                note("rejected")
                place = other
                continue
            if self._may_be_thought(completion):
                has_learned = place < self._place or room < self._fitting(self._room, request)
                if has_learned:  # meanwhile, from other replies
                    note("malformed")
                    place = max(place, self._place)
                    continue
                if not room and place not in self._looked:
                    completion = await self._looked_behind(completion, send, request, place, note)
            self._place = max(place, self._place)
            self._learn(completion, place)
            if not is_exhausted(completion):
                return completion
            if place == self._place and room >= self._fitting(self._room, request):
                raise exhausted(request.max_tokens + room)
            note("thinking_exhausted")
            place = self._place

    async def _sent(self, send: Send, request: CompletionRequest, place: int, room: int) -> Completion:
        extra = merged(self._forms[place], request.extra)
        extended = msgspec.structs.replace(request, extra=extra, max_tokens=request.max_tokens + room)
        return told_apart(await send(extended), is_begun=self._is_begun)

    def _replacing(self, place: int, request: CompletionRequest, exc: CompletionError) -> int | None:
        """The form to try after a refusal, also an unexplained one; None for a refusal of something else."""
        if exc.kind != "rejected" or exc.status_code not in REFUSED_FOR_WORDS or not self._forms[place]:
            return None
        if any(name in str(exc) for name in self._forms[place]):
            return place + 1
        return None if request.response_schema is not None or self._is_obeyed else len(self._forms) - 1

    def _may_be_thought(self, completion: Completion) -> bool:
        """Return whether a reply that was cut off, and ought not to be, may be a single long thought without marks."""
        return self._expects_whole and completion.finish_reason == "length" and not has_thoughts(completion)

    async def _looked_behind(
        self, cut: Completion, send: Send, request: CompletionRequest, place: int, note: Note
    ) -> Completion:
        """Return the same reply with room for the mark that ends its thoughts; `cut` if there is not enough room."""
        while (room := self._fitting(DEFAULT_BUDGET, request)) >= LEAST_ROOM:
            try:
                completion = await self._sent(send, request, place, room)
            except CompletionError as exc:
                if not self._is_out_of_room(exc, room, request):
                    raise
                note("rejected")
            else:
                self._looked.add(place)
                note("thinking_exhausted" if has_thoughts(completion) else "malformed")
                return completion
        return cut

    def _fitting(self, room: int, request: CompletionRequest) -> int:
        """Return the room, halved until no request of this length or shorter is known to have been refused it."""
        length = _length(request)
        while room >= LEAST_ROOM and length >= self._refused_from.get(room, math.inf):
            room //= 2
        return room

    def _is_out_of_room(self, exc: CompletionError, room: int, request: CompletionRequest) -> bool:
        """Return whether a server refused a request for its number of tokens, and it can have less room."""
        if room < LEAST_ROOM or not is_for_tokens(exc):
            return False
        self._refused_from[room] = min(_length(request), self._refused_from.get(room, _length(request)))
        return True

    def _learn(self, completion: Completion, place: int) -> None:
        if not has_thoughts(completion):
            self._is_obeyed = self._is_obeyed or completion.finish_reason != "length"
            return
        self._is_begun = completion.reasoning_field == "begun"
        if place != self._place:
            return
        last = len(self._forms) - 2  # the empty form is for servers that refuse the others
        if self.thinking.mode == "off" and not self._is_obeyed and place < last:
            self._place, self._is_begun = self._place + 1, False
        elif not self._room:
            self._room = DEFAULT_BUDGET


class ThinkingCompleter:
    """A completer whose server is told whether to think, model by model."""

    def __init__(self, inner: Completer, thinking: Thinking, *, expects_whole: bool = False) -> None:
        """See ThinkingSwitch; the caller closes `inner`."""
        self._inner = inner
        self.thinking = thinking
        self._expects_whole = expects_whole
        self._switches: dict[str, ThinkingSwitch] = {}

    async def complete(self, request: CompletionRequest) -> Completion:
        if request.model not in self._switches:
            if len(self._switches) >= MOST_MODELS:
                self._switches.clear()
            self._switches[request.model] = ThinkingSwitch(self.thinking, expects_whole=self._expects_whole)
        return await self._switches[request.model].ask(self._inner.complete, request, self.on_judged)

    def on_judged(self, outcome: JudgeOutcome) -> None:
        if isinstance(self._inner, HearsOfJudgements):
            self._inner.on_judged(outcome)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _length(request: CompletionRequest) -> int:
    return sum(message.n_chars for message in request.messages) + _CHARS_PER_TOKEN * request.max_tokens


def has_thoughts(completion: Completion) -> bool:
    """Return whether a reply shows that its model thought: by its thoughts, or by their number of tokens."""
    return bool(completion.reasoning) or bool(reasoning_tokens(completion.usage))


def exhausted(max_tokens: int) -> CompletionError:
    """A reply that ended within its model's thoughts."""
    message = (
        f"the reply ended after {max_tokens} tokens, before its model had finished thinking: set the auditor's "
        "`thinking` to off, or to a larger budget"
    )
    return CompletionError("thinking_exhausted", message, status_code=200)
