"""The form in which every door hands on what it is sent: whole exchanges and parts of exchanges."""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec

from auditors.structs import combine
from auditors.types import Exchange
from gateway.errors import RequestError

Json = dict[str, Any]

Door = Literal["otlp", "litellm", "http"]
Outcome = Literal["taken", "duplicate", "waiting", "no_content", "half", "ignored", "rejected", "refused"]
"""Outcome of a thing sent; a metric label. taken: in the ledger. waiting: part of an exchange. no_content, half: its
other parts came too late (no text, or one side's), not_auditable. ignored: no exchange, such as a database's span.
rejected: not understood. refused: a whole body, answered with 4xx or 503."""

CHAT = "/v1/chat/completions"
LONGEST_ID = 1000
"""Most characters of an id that a sender gives."""
LONGEST_NAME = 200
MOST_MESSAGES = 10_000
"""Messages of an exchange; more are left out."""


MOST_ERRORS = 20
"""Errors that an answer names; the counts are of all."""


class UnreadableError(RequestError):
    """One of the things sent cannot be understood; the others are taken."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of an exchange, or all of it, as a span, event or call states it. Times are Unix seconds."""

    id: str
    request_id: str
    at: float | None = None
    """Time at which the request came; None where the sender did not say."""
    model: str | None = None
    asked: list[Json] = []
    """Messages of the request, in order, as a chat completion has them."""
    answered: list[Json] = []
    """Choices of the response. Of several with one index the longest stands: others are its beginning."""
    request: bytes | None = None
    """The whole request, as it was sent; then `asked` and `fields` are empty."""
    response: bytes | None = None
    endpoint: str = CHAT
    status: int = 200
    content_type: str = "application/json"
    stream: bool = False
    fields: Json = {}
    """Other members of the request: temperature, max_tokens, user ..."""
    sender_rate: float | None = None
    """Share of its exchanges that the sender sends, as `gateway.features.ingest.rates` believed it; None: unknown."""
    tag: str | None = None
    opt: str | None = None
    """"off" where the request asked not to be audited."""
    key_name: str | None = None
    """Name of the key it came with; set when it is taken, as is the `opt` that the key allows."""
    door: Door = "otlp"
    seconds: float | None = None
    first_chunk_seconds: float | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether all that is needed has come; a failed request has no answer."""
        answered = self.answered or self.status != 200
        return bool(self.model and self.asked and answered) or bool(self.request and self.response)

    @property
    def may_be_audited(self) -> bool:
        """Return whether both sides are there, if nothing more comes."""
        return bool(self.asked or self.request) and bool(self.answered or self.response)

    @property
    def has_text(self) -> bool:
        return bool(self.asked or self.request or self.answered or self.response)


class Received(Part, frozen=True, kw_only=True):
    """An exchange with both bodies."""

    model: str
    request: bytes
    response: bytes

    @property
    def size(self) -> int:
        return len(self.request) + len(self.response)


class Rejections(msgspec.Struct):
    """Things that were not understood: how many, and why, of the first few."""

    count: int = 0
    first: list[str] = []

    def add(self, why: str) -> None:
        self.count += 1
        if len(self.first) < MOST_ERRORS:
            self.first.append(why)

    def and_then(self, more: "Rejections") -> "Rejections":
        """These, and more after them."""
        return Rejections(self.count + more.count, [*self.first, *more.first][:MOST_ERRORS])


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a request to a door."""

    whole: list[Received] = []
    parts: list[Part] = []
    n_ignored: int = 0
    rejected: Rejections = msgspec.field(default_factory=Rejections)
    n_ignored_rates: int = 0
    """Number of exchanges, or parts of them, that state a sampling rate which does not count."""


def exchange_id(sender: str | None, id_there: str | None) -> str:
    """Return an exchange's id, equal for the same sender and id, so that it counts once; random without an id."""
    if not id_there:
        return secrets.token_hex(16)
    identity = f"{sender or ''}\0{id_there[:LONGEST_ID]}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(identity, digest_size=16, person=b"biasgate ingest").hexdigest()


_FIRST = ("at", "model", "request", "response", "sender_rate", "tag", "opt", "seconds")
"""Fields that are taken from the earliest part that has them."""


def merged(parts: Sequence[Part]) -> Part:
    """Merge all parts of an exchange: the earliest value of each field, messages by time, the longest choices."""
    ordered = sorted(parts, key=lambda part: (part.at is None, part.at or 0.0))
    first = {
        name: next((value for part in ordered if (value := getattr(part, name)) is not None), None) for name in _FIRST
    }
    by_index: dict[Any, tuple[int, Json]] = {}
    for choice in chain.from_iterable(part.answered for part in ordered):
        size, index = len(msgspec.json.encode(choice)), choice.get("index")
        if size > by_index.get(index, (0, choice))[0] and (index in by_index or len(by_index) < MOST_MESSAGES):
            by_index[index] = (size, choice)
    return msgspec.structs.replace(
        ordered[0],
        **first,
        asked=_together([part.asked for part in ordered]),
        answered=[choice for _, choice in by_index.values()],
        endpoint=next((part.endpoint for part in ordered if part.endpoint != CHAT), CHAT),
        status=max(part.status for part in ordered),
        fields={name: value for part in reversed(ordered) for name, value in part.fields.items()},
    )


def one_of_each(parts: Iterable[Part]) -> list[Part]:
    """Return the parts of a body, with those of the same exchange put together."""
    by_id: dict[str, list[Part]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    return [some[0] if len(some) == 1 else merged(some) for some in by_id.values()]


def completed(part: Part) -> Received:
    """The exchange that a part says all of, as a chat completion's bodies."""
    model, request, response = part.model or "", part.request, part.response
    if request is None:
        request = msgspec.json.encode({**part.fields, "model": model, "messages": part.asked})
    if response is None:
        response = msgspec.json.encode({"model": model, "choices": part.answered})
    bodies = {"model": model, "request": request, "response": response, "asked": [], "answered": [], "fields": {}}
    return Received(**msgspec.structs.asdict(part) | bodies)


def read_each(objects: Iterable[Any], read: Callable[[Any], Part | None], *, name: str) -> Sent:
    """Read a list of objects; an object for which `read` raises UnreadableError is rejected by its name and number."""
    whole, parts, n_ignored, rejected = list[Received](), list[Part](), 0, Rejections()
    for number, entry in enumerate(objects):
        try:
            part = read(entry)
        except UnreadableError as exc:
            rejected.add(f"{name} {number}: {exc}")
            continue
        if isinstance(part, Received):
            whole.append(part)
        elif part is not None:
            parts.append(part)
        else:
            n_ignored += 1
    return Sent(whole=whole, parts=one_of_each(parts), n_ignored=n_ignored, rejected=rejected)


def object_of(value: Any) -> Json:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def number_of(value: Any) -> float | None:
    """Return a finite number, also if it is written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def text_of(value: Any, longest: int = LONGEST_NAME) -> str | None:
    """A text that says something, cut; None for anything else."""
    return value[:longest] if isinstance(value, str) and value else None


def _together(lists: Sequence[list[Json]]) -> list[Json]:
    """Pieces in their order; each said once, and a longer list that has all of the others stands alone."""
    longest = max(lists, key=len)
    pieces = {msgspec.json.encode(piece): piece for piece in chain.from_iterable(lists)}
    has_all = {msgspec.json.encode(piece) for piece in longest} >= pieces.keys()
    return (longest if has_all else [*pieces.values()])[:MOST_MESSAGES]


def exchange_of(
    received: Received,
    *,
    stratum: str,
    probability: float,
    rate_factor: float,
    received_at: float,
    upstream: str,
    model_label: str,
) -> Exchange:
    """Return the exchange as the store keeps it; `probability` is the gateway's own probability of drawing it."""
    return combine(
        Exchange,
        received,
        received_at=received_at,
        served_model=received.model,
        upstream=upstream,
        status_code=received.status,
        stratum=stratum,
        inclusion_probability=probability * (1.0 if received.sender_rate is None else received.sender_rate),
        rate_factor=rate_factor,
        request_body=received.request,
        response_body=received.response,
        model_label=model_label,
    )
