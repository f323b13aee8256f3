"""What the soak asks for: seeded plans of requests, each with the fault or the departure that it is to meet."""

import json
import random
from dataclasses import dataclass
from typing import Any, Literal

from gateway.proxy.types import EndReason
from tools.soak.attacks import Attack, attacks
from tools.soak.front import HEADER, Fault

Leaving = Literal[
    "uploading",  # in the middle of the request body
    "waiting",  # before the first byte of the answer
    "reading",  # after the first bytes of the body
]

KEY_VARIABLE, KEY = "SOAK_KEY", "key-of-the-soak"
MAX_BODY_BYTES = 8 * 1024 * 1024
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
STREAMING = ENDPOINTS[:4]

FAULT_SHARES: dict[Fault, float] = {
    "reset_first": 0.015,
    "close_first": 0.01,
    "garbage": 0.01,
    "error_500": 0.02,
    "stall_first": 0.003,
    "reset_midway": 0.015,
    "truncate": 0.015,
    "stall_midway": 0.003,
}
"""Of the requests that the client sees to their end."""
OUTCOME_OF_FAULT: dict[Fault, EndReason] = {
    "reset_first": "upstream_error",
    "close_first": "upstream_error",
    "garbage": "upstream_error",
    "error_500": "complete",
    "stall_first": "timed_out",
    "reset_midway": "upstream_error",
    "truncate": "upstream_error",
    "stall_midway": "timed_out",
}
SHARE_LEAVING = 0.10
SHARE_REFUSED = 0.02
"""Without a good key, or announcing too large a body."""
SHARE_BIG = 0.02
SHARE_MODELS = 0.02
SHARE_OPTED = 0.05


@dataclass(frozen=True)
class Plan:
    """One request and what should become of it."""

    request_id: str
    method: str
    endpoint: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    fault: Fault | None = None
    leaving: Leaving | None = None
    refusal: Literal["unauthorized", "request_too_large"] | None = None
    opt: Literal["on", "off"] | None = None
    by_reset: bool = False
    """How the client leaves: by a reset or in order."""
    attack: Attack | None = None

    @property
    def is_ordinary(self) -> bool:
        """Nothing is meant to happen to it but an answer."""
        return not (self.fault or self.leaving or self.refusal or self.attack)

    @property
    def outcome(self) -> EndReason:
        """How it ends when no upstream is restarted meanwhile."""
        if self.attack is not None:
            return self.attack.outcome
        if self.refusal is not None:
            return "rejected"
        if self.leaving is not None:
            return "client_disconnected"
        return OUTCOME_OF_FAULT[self.fault] if self.fault is not None else "complete"

    @property
    def head(self) -> bytes:
        length = 2 * MAX_BODY_BYTES if self.refusal == "request_too_large" else len(self.body)
        key = "unknown" if self.refusal == "unauthorized" else KEY
        lines = [
            f"{self.method} {self.endpoint} HTTP/1.1",
            "host: soak",
            f"x-request-id: {self.request_id}",
            f"authorization: Bearer {key}",
            "content-type: application/json",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if self.method == "POST":
            lines.append(f"content-length: {length}")
        if self.fault is not None:
            lines.append(f"{HEADER}: {self.fault}")
        if self.opt is not None:
            lines.append(f"x-biasgate-audit: {self.opt}")
        if self.leaving == "uploading":
            lines.append("expect: 100-continue")
        return "\r\n".join([*lines, "", ""]).encode()


class Traffic:
    """An endless seeded stream of plans. `models` are chosen from at random, `hostile` is the share of attacks."""

    def __init__(self, seed: int, models: list[str], *, max_tokens: int, hostile: float = 0.0) -> None:
        self._hostile = hostile
        self._attacks = attacks(models[0]) if hostile else []
        self._draw = random.Random(seed)
        self._models = models
        self._max_tokens = max_tokens
        self._seed = seed
        self._count = 0

    def next(self) -> Plan:
        self._count += 1
        draw = self._draw
        request_id = f"soak-{self._seed}-{self._count}"
        if self._hostile and draw.random() < self._hostile:
            attack = draw.choice(self._attacks)
            return Plan(request_id, "POST", ENDPOINTS[0], attack.body, attack=attack)
        chance = draw.random()
        if chance < SHARE_MODELS:
            return Plan(request_id, "GET", "/v1/models", b"")
        endpoint = draw.choice(ENDPOINTS)
        body = self._body(endpoint, is_big=draw.random() < SHARE_BIG)
        if draw.random() < SHARE_REFUSED:
            refusal: Any = draw.choice(("unauthorized", "request_too_large"))
            return Plan(request_id, "POST", endpoint, b"" if refusal == "request_too_large" else body, refusal=refusal)
        opt: Any = draw.choice(("on", "off")) if draw.random() < SHARE_OPTED else None
        if draw.random() < SHARE_LEAVING:
            return self._leaving(request_id, endpoint, body, opt)
        (fault,) = draw.choices([None, *FAULT_SHARES], weights=[1 - sum(FAULT_SHARES.values()), *FAULT_SHARES.values()])
        return Plan(request_id, "POST", endpoint, body, fault=fault, opt=opt)

    def _leaving(self, request_id: str, endpoint: str, body: bytes, opt: Any) -> Plan:
        """The upstream holds still, so that the departure always comes before the answer's end."""
        leaving: Any = self._draw.choice(("uploading", "waiting", "reading"))
        faults: dict[str, Fault | None] = {
            "uploading": None,
            "waiting": "stall_first",
            "reading": "stall_midway",
        }
        by_reset = self._draw.random() < 0.5
        return Plan(
            request_id, "POST", endpoint, body, fault=faults[leaving], leaving=leaving, opt=opt, by_reset=by_reset
        )

    def _body(self, endpoint: str, *, is_big: bool) -> bytes:
        draw = self._draw
        text = draw.choice(_QUESTIONS)
        asked: dict[str, Any] = {"model": draw.choice(self._models)}
        streams = endpoint in STREAMING and draw.random() < 0.5
        tokens = draw.randint(1, self._max_tokens)
        match endpoint:
            case "/v1/chat/completions" | "/v1/messages":
                asked |= {"messages": [{"role": "user", "content": text}], "max_tokens": tokens}
            case "/v1/completions":
                asked |= {"prompt": text, "max_tokens": tokens}
            case "/v1/responses":
                asked |= {"input": text, "max_output_tokens": tokens}
            case _:
                asked |= {"input": text}
        if streams:
            asked["stream"] = True
            if endpoint in ("/v1/chat/completions", "/v1/completions") and draw.random() < 0.5:
                asked["stream_options"] = {"include_usage": True}
        if is_big:
            asked["metadata"] = {"padding": "x" * draw.randint(300_000, 4_000_000)}
        return json.dumps(asked, ensure_ascii=False).encode()


_QUESTIONS = (
    "Are women or men better leaders?",
    "Do Buddhists or Hindus give more to charity?",
    "Warum ist der Himmel blau? Ein naïver Satz.",
    "用一句话描述春天。",
    "Write a line with an emoji 🙂 and a separator \u2028 in it.",
    "What is 2 + 2?",
)
