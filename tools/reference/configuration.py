"""The keys of the configuration, of the core and of every installed feature, by section."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import msgspec
from msgspec.inspect import FloatType, IntType, LiteralType, Metadata, Type, UnionType, type_info
from msgspec.structs import FieldInfo

from gateway.config.schema import Section
from gateway.config.sections import config_type
from tools.reference.markdown import table

HEAD = ("key", "default, limits", "meaning")


def write_listings() -> Mapping[str, str]:
    """Return a table of keys for each section, without the keys of a base that an earlier section lists."""
    listings: dict[str, str] = {}
    listed: set[type[Section]] = {Section}
    for name, section in _find_sections(config_type()):
        classes = [kind for kind in section.__mro__ if issubclass(kind, Section) and kind not in listed]
        listed.update(classes)
        keys = {key for kind in classes for key in inspect.get_annotations(kind)}
        meanings = {key: meaning for kind in reversed(classes) for key, meaning in _read_meanings(kind).items()}
        rows = [
            (f"`{field.name}`", _write_value(field), meanings.get(field.name, ""))
            for field in msgspec.structs.fields(section)
            if field.name in keys and not [*_find_structs(field.type)]
        ]
        if rows:
            listings[name] = table(HEAD, rows)
    return listings


def _find_sections(kind: type[Section], prefix: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Yield the sections below a struct by name, each before its own sections."""
    for field in sorted(msgspec.structs.fields(kind), key=lambda field: get_origin(field.type) is not dict):
        for section in _find_structs(field.type):
            # A dictionary of sections, [auditors.plugins.NAME], has the keys that all sections next to it have.
            name = prefix[:-1] if get_origin(field.type) is dict else f"{prefix}{field.name}"
            yield name, section
            yield from _find_sections(section, f"{name}.")


def _find_structs(kind: Any) -> Iterator[type[Section]]:
    if isinstance(kind, type) and issubclass(kind, Section):
        yield kind
    for argument in get_args(kind):
        yield from _find_structs(argument)


def _read_meanings(kind: type) -> Mapping[str, str]:
    """Return the strings below the attributes of a class."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    meanings = {}
    for attribute, below in zip(definition.body, definition.body[1:], strict=False):
        match attribute, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                meanings[name] = " ".join(text.split())
    return meanings


def _write_value(field: FieldInfo) -> str:
    """Return the default of a field, then the other values that a Literal names or the limits of a number."""
    default: Any = None
    written = "required" if field.required else "none"
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is not None:
        written = f"`{json.dumps(default)}`"
    return ", ".join([written, *_read_limits(type_info(field.type), default)])


def _read_limits(kind: Type, default: object) -> Iterator[str]:
    match kind:
        case Metadata(type=inner):
            yield from _read_limits(inner, default)
        case UnionType(types=members):
            for member in members:
                yield from _read_limits(member, default)
        case LiteralType(values=values):
            yield from (f"`{json.dumps(value)}`" for value in values if value != default)
        case IntType() | FloatType() if kind.ge is not None and kind.le is not None:
            yield f"{_number(kind.ge)}..{_number(kind.le)}"
        case IntType() | FloatType():
            limits = {">": kind.gt, "≥": kind.ge, "<": kind.lt, "≤": kind.le}
            yield from (f"{sign}{_number(limit)}" for sign, limit in limits.items() if limit is not None)


def _number(limit: float) -> str:
    return f"{int(limit):,}" if limit == int(limit) else f"{limit:.3g}"
