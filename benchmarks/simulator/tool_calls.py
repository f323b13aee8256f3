"""Calls of tools: what a request offers, the form of a call (vLLM's parser "hermes") and its reading, and planted
choices. A call cut off before its end stays text when read whole, and is a begun call when streamed, as in vLLM. Of
several tools the first is called, or with a planted probability the last; a schema gets its first values or all its
last. Both depend on the group named and are drawn for each answer.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from auditors.text.identity import groups_mentioned
from benchmarks.simulator.replies import EOS, digest
from benchmarks.simulator.sections import Probability, Section, unknown_groups
from benchmarks.simulator.stance import without_identity

_OPENING, _SEPARATOR, _CLOSING = '<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>"


class Tool(msgspec.Struct, frozen=True):
    name: str
    parameters: Mapping[str, Any] = {}


class Offer(msgspec.Struct, frozen=True):
    """The tools that an answer may call."""

    tools: tuple[Tool, ...] = ()
    choice: Literal["auto", "required", "named"] = "auto"
    """auto: the model may answer in words. named: there is but the tool that the request names."""

    @property
    def is_demanded(self) -> bool:
        return bool(self.tools) and self.choice != "auto"


class Call(NamedTuple):
    name: str
    arguments: str
    """JSON."""


class Piece(NamedTuple):
    """The kind of a reply's token: a part of its text or of the call's arguments, the last of its name, or a mark."""

    kind: Literal["text", "name", "arguments", "mark"]
    text: str = ""
    """Text of the token; for a name, the whole name."""


class _Found(NamedTuple):
    begin: int
    name: str | None
    """Name of the tool; None where the reply was cut off before its end."""
    name_end: int
    arguments: tuple[int, int]
    is_whole: bool


def write(call: Call) -> str:
    """The call as the model writes it."""
    return f"{_OPENING}{json.dumps(call.name)}{_SEPARATOR}{call.arguments}{_CLOSING}"


def read(text: str) -> tuple[str, Call | None]:
    """Text before the call, and the call; all of the text and None where there is none, or it was cut off."""
    located = _find(text)
    if located is None or located.name is None or not located.is_whole:
        return text, None
    begin, end = located.arguments
    return text[: located.begin], Call(located.name, text[begin:end])


def pieces(tokens: Sequence[str]) -> list[Piece] | None:
    """Return the kind of each token; None if the reply begins no call."""
    whole = "".join(token for token in tokens if token != EOS)
    located = _find(whole)
    if located is None:
        return None
    listed, at = list[Piece](), 0
    for token in tokens:
        end = at + (0 if token == EOS else len(token))
        begin, stop = max(at, located.arguments[0]), min(end, located.arguments[1])
        if located.name is not None and at < located.name_end <= end:
            listed.append(Piece("name", located.name))
        elif begin < stop:
            listed.append(Piece("arguments", whole[begin:stop]))
        elif at < end <= located.begin:
            listed.append(Piece("text", token))
        else:
            listed.append(Piece("mark"))
        at = end
    return listed


def call_id(answer: str, index: int) -> str:
    return f"chatcmpl-tool-{digest(f'{answer}/{index}')[:16]}"


def _find(text: str) -> _Found | None:
    """The call in a reply; neither its name nor its arguments can hold a mark, for JSON escapes what is in them."""
    begin = text.rfind(_OPENING)
    if begin < 0:
        return None
    name_begin = begin + len(_OPENING)
    name_end = text.find(_SEPARATOR, name_begin)
    if name_end < 0:
        return _Found(begin, None, len(text), (len(text), len(text)), False)
    try:
        name = json.loads(text[name_begin:name_end])
    except ValueError:  # a mark that a thought quotes
        return None
    first, last = name_end + len(_SEPARATOR), text.rfind(_CLOSING)
    is_whole = last >= first
    end = last if is_whole else _end_of_object(text, first)
    return _Found(begin, name, name_end, (first, end), is_whole)


def _end_of_object(text: str, begin: int) -> int:
    try:
        return json.JSONDecoder().raw_decode(text, begin)[1]
    except ValueError:
        return len(text)


def instance(schema: Mapping[str, Any], *, is_other: bool = False) -> Any:
    """The first allowed value of everything (constants, enums, lower bounds, all properties), or the last: last of an
    enum, true for false, upper bound or lower + 1, another letter. Constants, null and itemless arrays are the same.
    """
    place = -1 if is_other else 0
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][place]
    for union, at in (("anyOf", place), ("oneOf", place), ("allOf", 0)):
        if schema.get(union):
            return instance(schema[union][at], is_other=is_other)
    kinds = schema.get("type", "object")
    kind = kinds if isinstance(kinds, str) else kinds[place]
    return _of_type(kind, schema, is_other)


def _of_type(kind: str, schema: Mapping[str, Any], is_other: bool) -> Any:
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: instance(below, is_other=is_other) for name, below in properties.items()}
        case "array":
            item = instance(schema.get("items", {"type": "string"}), is_other=is_other)
            return [item] * int(schema.get("minItems", 0))
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return schema.get("maximum", least + 1) if is_other else least
        case "string":
            least = int(schema.get("minLength", 0))
            return "y" * min(max(1, least), schema.get("maxLength", max(1, least))) if is_other else "x" * least
        case "boolean":
            return is_other
        case _:
            return None


class OtherChoice(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Probability of taking the other of two choices."""

    default: Probability = 0.0
    groups: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group that a prompt names first -> probability; the default where left out."""

    def faults(self) -> Iterator[str]:
        yield from unknown_groups(self.groups, "groups")

    def p(self, axis: str, group: str) -> float:
        return self.groups.get(axis, {}).get(group, self.default)

    def about(self, prompt: str) -> float:
        """The probability for a prompt; a sentence that gives the model an identity names no group."""
        named = groups_mentioned(without_identity(prompt)[0])
        return self.p(*named[0]) if named else self.default


class StructuredChoices(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answers to requests that offer tools or ask for JSON."""

    tool: OtherChoice | None = None
    """P(the last of the tools offered is called, not the first). None: words, unless the request demands a call."""
    values: OtherChoice = OtherChoice()
    """P(fields and arguments take the last value that the schema allows, not the first)."""

    def faults(self) -> Iterator[str]:
        for name, below in (("tool", self.tool), ("values", self.values)):
            for fault in () if below is None else below.faults():
                yield f"{name}.{fault}"

    def instances(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, float]:
        """Both fillings of a schema as JSON, with their probabilities."""
        p = self.values.about(prompt)
        first, other = (
            msgspec.json.encode(instance(schema, is_other=is_second)).decode() for is_second in (False, True)
        )
        return {first: 1.0} if first == other else {first: 1 - p, other: p}

    def calls(self, prompt: str, offer: Offer) -> dict[str, float]:
        """Calls as the model writes them, with their probabilities."""
        p = 0.0 if self.tool is None else self.tool.about(prompt)
        weights = defaultdict[str, float](float)
        for tool, p_tool in ((offer.tools[0], 1 - p), (offer.tools[-1], p)):
            for arguments, p_arguments in self.instances(prompt, tool.parameters).items():
                weights[write(Call(tool.name, arguments))] += p_tool * p_arguments
        return weights
