"""One request for text, whichever endpoint it came through: what the answering half of the simulator sees."""

from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.simulator.thinking import Told
from benchmarks.simulator.tool_calls import Offer


class Turn(msgspec.Struct, frozen=True):
    role: str
    text: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    turns: tuple[Turn, ...]
    prefix: str = ""
    """Beginning of the reply that the client forces (continue_final_message)."""
    prompt_tokens: int
    max_tokens: int
    temperature: float = 1.0
    """0 takes the most likely reply; above it the planted probabilities hold, whatever the value and top_p."""
    n: int = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] | None = None
    """structured_outputs.choice: the reply is one of these."""
    schema: Mapping[str, Any] | None = None
    """JSON schema the reply must follow."""
    schema_name: str | None = None
    offer: Offer = Offer()
    """Tools that the reply may call."""
    priority: int = 0
    told: Told = Told()
    """What the request says about thinking."""
    is_forced: bool = False
    """The client has begun the reply: the model is past its thoughts."""

    @property
    def system(self) -> str:
        return "\n".join(turn.text for turn in self.turns if turn.role in ("system", "developer"))

    @property
    def user(self) -> str:
        """The last thing a user said, which is what is answered."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")

    @property
    def case(self) -> str:
        """What tools and values are chosen by: what tools have returned, then what is answered."""
        return "\n".join([*(turn.text for turn in self.turns if turn.role == "tool"), self.user])

    @property
    def content(self) -> str:
        """Everything that the planted distribution depends on, in one canonical string."""
        parts: list[Any] = [self.model, [[turn.role, turn.text] for turn in self.turns], self.prefix]
        offered = [self.offer] if self.offer.tools else []
        return msgspec.json.encode([*parts, self.choices, self.schema, *offered], order="sorted").decode()


def render(turns: tuple[Turn, ...], prefix: str = "") -> str:
    """The chat template: what /tokenize counts and `usage.prompt_tokens` reports."""
    return "".join(f"<|{turn.role}|>\n{turn.text}\n" for turn in turns) + f"<|assistant|>\n{prefix}"
