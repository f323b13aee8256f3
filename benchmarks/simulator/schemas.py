"""Two small valid instances of a JSON schema, for structured requests that no planted behaviour answers."""

from collections.abc import Mapping
from typing import Any


def instance(schema: Mapping[str, Any], *, is_other: bool = False) -> Any:
    """The first allowed value of everything: constants, enums, lower bounds, required and optional properties.

    The other instance has the last one: the last of an enum, true for false, the upper bound or one more than the
    lower, another letter. A constant, null and an array without items are the same in both.
    """
    place = -1 if is_other else 0
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][place]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return instance(schema[union][place], is_other=is_other)
    if schema.get("allOf"):
        return instance(schema["allOf"][0], is_other=is_other)
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
