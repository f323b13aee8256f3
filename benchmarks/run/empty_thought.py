"""A model that cannot be told not to think, made to answer at once: its reply is begun for it, with an empty thought.

The template of its chat decides whether such a beginning is kept (Qwen3's and GLM's keep it) or cannot be continued
(DeepSeek's leaves thoughts out), so it is tried before anything is measured.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from auditors.types import Completer, Completion, CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError

EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
"""As the templates of models with a switch write it when thinking is off."""
CONTINUE: Mapping[str, Any] = {"add_generation_prompt": False, "continue_final_message": True}
"""Fields by which vLLM goes on with the last message instead of answering it."""


class WithEmptyThought(msgspec.Struct, frozen=True):
    """A completer whose every reply is begun with an empty thought."""

    inner: Completer

    async def complete(self, request: CompletionRequest) -> Completion:
        """The reply behind the empty thought, and behind the beginning of its own that a request continues.

        A parser that waits for the end of the thoughts, which stands in the prompt, takes the answer for a thought:
        where there is nothing else, it is the answer.
        """
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
    """Whether an empty thought is kept in the prompt, and the model answers behind it without another one.

    Raises: BenchmarkError where the server does not answer.
    """
    try:
        plain = await completer.complete(msgspec.structs.replace(request, max_tokens=1))
        begun = await WithEmptyThought(completer).complete(request)
    except CompletionError as exc:
        if exc.kind == "rejected":
            return False
        raise BenchmarkError(f"the model server does not answer: {exc}") from exc
    lengths = [(one.usage or {}).get("prompt_tokens") for one in (plain, begun)]
    is_kept = None not in lengths and lengths[0] != lengths[1]
    return is_kept and begun.reasoning is None and begun.finish_reason == "stop" and bool((begun.text or "").strip())
