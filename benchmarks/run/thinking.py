"""A served model's thinking, tested before a run asks anything, and the room that its replies need.
A short question is asked in the words servers may understand until a form is obeyed (`auditors.text.thinking.forms`). A
model that cannot be told not to think answers after an empty thought, if its chat template keeps it (Qwen3's and GLM's
do, DeepSeek's does not), which is tried first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from auditors.text.thinking import (
    OFF,
    OWNED_FIELDS,
    Thinking,
    forms,
    is_exhausted,
    merged,
    parse_thinking,
    reasoning_tokens,
)
from auditors.types import Completer, Completion, CompletionError, CompletionRequest, Message, TellsServing
from benchmarks.errors import BenchmarkError
from benchmarks.run.completers.reply_cache import is_from_cache
from benchmarks.run.completers.served import ServerDefaults

EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
"""Empty thought as the templates of models with a switch write it when thinking is off."""
CONTINUE: Mapping[str, Any] = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields by which vLLM goes on with the last message instead of answering it."""


class WithEmptyThought(msgspec.Struct, frozen=True):
    """A completer whose every reply is begun with an empty thought."""

    inner: Completer

    async def complete(self, request: CompletionRequest) -> Completion:
        """The reply behind the empty thought and behind a beginning to continue; a parser's "thought" is the answer."""
        *earlier, last = request.messages
        if last.role == "assistant":
            begun, extra = [*earlier, Message(last.role, EMPTY_THOUGHT + last.content)], request.extra
        else:
            begun, extra = [*request.messages, Message("assistant", EMPTY_THOUGHT)], {**request.extra, **CONTINUE}
        completion = await self.inner.complete(msgspec.structs.replace(request, messages=begun, extra=extra))
        if completion.text or completion.reasoning is None:
            return completion
        return msgspec.structs.replace(completion, text=completion.reasoning, reasoning=None, reasoning_field=None)

    async def aclose(self) -> None:
        await self.inner.aclose()


async def ends_thinking(completer: Completer, request: CompletionRequest) -> bool:
    """Return whether an empty thought is kept, and ends the thinking. Raises BenchmarkError without an answer."""
    try:
        plain = await completer.complete(msgspec.structs.replace(request, max_tokens=1))
        begun = await WithEmptyThought(completer).complete(request)
    except CompletionError as exc:
        if exc.kind == "rejected":
            return False
        raise BenchmarkError(f"the model server does not answer: {exc}") from exc
    lengths = [(completion.usage or {}).get("prompt_tokens") for completion in (plain, begun)]
    is_kept = None not in lengths and lengths[0] != lengths[1]
    return is_kept and begun.reasoning is None and begun.finish_reason == "stop" and bool((begun.text or "").strip())


QUESTION = "Is 17 a prime number? Answer with yes or no."
"""Short, and worth a thought."""
PROBE_TOKENS = 1024
MOST_EXHAUSTED = 0.05
"""Share of replies that may run out of tokens while thinking; above it a run has no headline number."""
MOST_KEPT_FREE = 2048
"""Tokens of a model's context, or half of it, that are left for a question and its answer."""
FATAL_STATUS_CODES = frozenset({401, 403, 404})
"""Answers that no repetition can change: wrong key, model not served."""


class ThinkingFound(msgspec.Struct, frozen=True, kw_only=True):
    """The way the server of a run handles thinking: part of its provenance."""

    thinks: bool | None
    """True if the model thinks; None: it gave no answer to the question."""
    field: str | None = None
    """Place of thoughts: "reasoning", "reasoning_content", "text" between marks, or "begun" by the prompt's end."""
    sent: dict[str, Any] = {}
    opening: str = ""
    """Text that each reply is begun with in the model's place: an empty thought, or nothing."""
    is_obeyed: bool | None = None
    """True if it does what was set; None if nothing was set, or it cannot be told."""
    room: int = 0
    """Tokens added to each answer's own limit."""
    words: str
    requests: int = 0
    server: ServerDefaults | None = None
    """Sampling and context of the server; a result has them as `Provenance.server_defaults`."""


Probe = Callable[[], Awaitable[ThinkingFound]]


def probe_once(
    completer: Completer, model: str, setting: str, extra_body: Mapping[str, Any] | None, *, is_exact: bool = False
) -> Probe:
    """A function that probes when it is first called, and remembers. `is_exact`: thinking is switched off for it."""
    probe_result: asyncio.Future[ThinkingFound] | None = None
    probing = probe_off if is_exact else _fitting

    async def probed() -> ThinkingFound:
        nonlocal probe_result
        if probe_result is None:
            probe_result = asyncio.ensure_future(probing(completer, model, parse_thinking(setting), extra_body or {}))
        return await probe_result

    return probed


async def probe_off(
    completer: Completer, model: str, thinking: Thinking, extra_body: Mapping[str, Any]
) -> ThinkingFound:
    """Probe without thoughts: told not to think, or begun with an empty thought. BenchmarkError where neither helps."""
    handling = await probe(completer, model, thinking, extra_body)
    if handling.thinks and thinking.mode == "default":
        off = await probe(completer, model, OFF, extra_body)
        words = f"{off.words}: it is switched off for mode exact"
        handling = msgspec.structs.replace(off, requests=handling.requests + off.requests, words=words)
    if not handling.thinks:
        return handling
    if not await ends_thinking(completer, _question(model, handling.sent)):
        raise BenchmarkError(
            "mode exact reads the first words of an answer, and this model thinks before it, cannot be switched off "
            "and keeps no empty thought: use --mode sample"
        )
    words = "the model cannot be switched off: each answer is begun with an empty thought for mode exact"
    return msgspec.structs.replace(
        handling, thinks=False, field=None, room=0, opening=EMPTY_THOUGHT, words=words, requests=handling.requests + 2
    )


async def _fitting(
    completer: Completer, model: str, thinking: Thinking, extra_body: Mapping[str, Any]
) -> ThinkingFound:
    """Probe with no more room than the model's context has: vLLM refuses a request for more."""
    handling = await probe(completer, model, thinking, extra_body)
    if not handling.room or not isinstance(completer, TellsServing):
        return handling
    context = (await completer.serving(model)).context
    if context is None or (most := context - min(context // 2, MOST_KEPT_FREE)) >= handling.room:
        return handling
    words = f"{handling.words}; a context of {context} tokens leaves only {most} of these"
    return msgspec.structs.replace(handling, room=most, words=words)


async def probe(completer: Completer, model: str, thinking: Thinking, extra_body: Mapping[str, Any]) -> ThinkingFound:
    """Asks until a form is obeyed; the user's `extra_body` wins. Raises BenchmarkError where the server refuses all."""
    accepted = list[tuple[dict[str, Any], Completion]]()
    refused: CompletionError | None = None
    n_requests = 0
    bodies = [merged(form, extra_body) for form in forms(thinking)]
    for place, body in enumerate(bodies):
        if body in bodies[:place]:
            continue
        n_requests += 1
        try:
            completion = await completer.complete(_question(model, body))
        except CompletionError as exc:
            if exc.status_code in FATAL_STATUS_CODES:
                raise BenchmarkError(f"the model server refuses: {exc}") from exc
            if exc.kind != "rejected":
                return _unknown(bodies[0], thinking, n_requests, exc)
            refused = refused or exc
            continue
        n_requests -= is_from_cache(completion.usage)
        if _obeys(thinking, completion) is not False:
            return _describe_handling(thinking, body, completion, n_requests, refused if place else None)
        accepted.append((body, completion))
    if not accepted:
        return _unknown(dict(extra_body), thinking, n_requests, refused)
    # Of the forms taken and not obeyed: that with the fewest thoughts for off, else the first.
    is_off = thinking.mode == "off"
    body, completion = min(accepted, key=lambda pair: len(pair[1].reasoning or "") if is_off else 0)
    return _describe_handling(thinking, body, completion, n_requests, refused)


def demand_fields(extra_body: Mapping[str, Any] | None) -> None:
    """Raises BenchmarkError for a field that a run sets itself."""
    for name in extra_body or {}:
        if name in OWNED_FIELDS:
            raise BenchmarkError(f'extra body: "{name}" is set by the run itself: leave it out')
        if name == "temperature":
            raise BenchmarkError('extra body: "temperature" has its own option: use --temperature')


def exhausted_reason(n_exhausted: int, n_replies: int, thinking: str) -> str | None:
    """Why a run has no headline number, and what mends it; None where few enough replies ran out of tokens."""
    if not n_replies or n_exhausted <= MOST_EXHAUSTED * n_replies:
        return None
    now = parse_thinking(thinking)
    more = f"with --thinking budget={4 * (now.room or 1024)}"
    is_off = now.mode == "off"
    mend = f"--thinking off did not stop it: run it {more}" if is_off else f"run it with --thinking off, or {more}"
    return (
        f"{n_exhausted} of {n_replies} replies ({100 * n_exhausted / n_replies:.0f} %) ran out of tokens while the "
        f"model was thinking, more than {100 * MOST_EXHAUSTED:.0f} %: {mend}"
    )


def _question(model: str, body: Mapping[str, Any]) -> CompletionRequest:
    return CompletionRequest(
        model=model, messages=(Message("user", QUESTION),), max_tokens=PROBE_TOKENS, temperature=None, extra=body
    )


def _thinks(completion: Completion) -> bool:
    return bool((completion.reasoning or "").strip() or reasoning_tokens(completion.usage))


def _obeys(thinking: Thinking, completion: Completion) -> bool | None:
    match thinking.mode:
        case "default":
            return None
        case "off":
            return not _thinks(completion)
        case _:
            return _thinks(completion)


def _describe_handling(
    thinking: Thinking, body: dict[str, Any], completion: Completion, n_requests: int, refused: CompletionError | None
) -> ThinkingFound:
    thinks = _thinks(completion)
    room = (thinking.room or Thinking("on").room) if thinks else 0
    return ThinkingFound(
        thinks=thinks,
        field=completion.reasoning_field if thinks else None,
        sent=body,
        is_obeyed=_obeys(thinking, completion),
        room=room,
        words=_in_words(thinking, body, completion, thinks, room, refused),
        requests=n_requests,
    )


_PLACES = {
    "reasoning": 'its thoughts come in "reasoning"',
    "reasoning_content": 'its thoughts come in "reasoning_content"',
    "text": "its thoughts come in the text, between marks: the server has no parser for them",
    "begun": "its thoughts come in the text, opened by the template: the server has no parser for them",
    None: "its thoughts are kept back by the server",
}


def _in_words(
    thinking: Thinking, body: Mapping[str, Any], completion: Completion, thinks: bool, room: int,
    refused: CompletionError | None,
) -> str:  # fmt: skip
    parts = [f"the model thinks; {_PLACES[completion.reasoning_field]}" if thinks else "the model does not think"]
    if thinks and thinking.mode == "off":
        parts.append(f"it could not be switched off, so each answer has {room} tokens more for thoughts")
    elif not thinks and thinking.mode in ("on", "budget"):
        parts.append(f"--thinking {thinking} changes nothing")
    elif thinks:
        parts.append(f"each answer has {room} tokens more for them")
    if thinks and thinking.mode == "budget" and "thinking_token_budget" not in body:
        parts.append("the server cannot hold them to a budget: longer ones run out")
    if not thinks and thinking.mode == "off" and completion.finish_reason == "length":
        parts.append(f"its reply to a short question did not end within {PROBE_TOKENS} tokens")
    if completion.finish_reason == "stop" and thinks and not (completion.text or "").strip():
        parts.append("it gave no answer apart from them: check the server's --reasoning-parser")
    if is_exhausted(completion):
        parts.append(f"{PROBE_TOKENS} tokens were not enough for a short question")
    if refused is not None:
        parts.append(f"the server refused another way of saying so ({refused})")
    return "; ".join(parts)


def _unknown(
    body: dict[str, Any], thinking: Thinking, n_requests: int, because: CompletionError | None
) -> ThinkingFound:
    return ThinkingFound(
        thinks=None,
        sent=body,
        room=thinking.room if thinking.mode in ("on", "budget") else 0,
        words=f"whether the model thinks is not known: {because}",
        requests=n_requests,
    )
