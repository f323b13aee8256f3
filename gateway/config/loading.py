"""One TOML file plus `BIASGATE_SECTION__KEY` overrides, checked: unknown keys are errors that name the nearest one."""

import json
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from auditors.addresses import mask_url
from auditors.text.thinking import parse_thinking
from auditors.text.user_files import read_utf8
from gateway.config.schema import (
    ADMIN,
    AUDITED_PATHS,
    BY_MODEL,
    BY_ROUTE,
    LONGEST_KEY_NAME,
    LONGEST_STRATUM,
    OWN_PATHS,
    Config,
    Section,
    ServerConfig,
)
from gateway.config.sections import check_sections, config_type
from gateway.config.timing import Timing
from gateway.errors import ConfigError, RequestError, nearest

_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+){1,20}")
_VALUE = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_TAKEN_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "cookie", "host", "traceparent", "x-request-id"}
)
_HEADER = re.compile(r"(?!x-biasgate-)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def load(path: Path | None, *, environ: Mapping[str, str] | None = None) -> Config:
    """Read a file (default ./biasgate.toml, if it exists) and overrides. Raises ConfigError: file, key and value."""
    environ = os.environ if environ is None else environ
    explicit = path is not None
    path = path or Path("biasgate.toml")
    raw: dict[str, Any] = {}
    if path.is_file():
        try:
            raw = tomllib.loads(read_utf8(path).decode())
        except tomllib.TOMLDecodeError as exc:
            raise ConfigError(f"{path}: not valid TOML: {exc}") from exc
        except RecursionError as exc:
            raise ConfigError(f"{path}: nested too deeply to be a configuration") from exc
        except OSError as exc:
            raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    elif explicit:
        raise ConfigError(f"{path}: no such configuration file")
    for name, text in environ.items():
        if name.startswith("BIASGATE_") and "__" in name:
            _override(raw, name, text)
    return validate(raw, where=str(path) if path.is_file() else "configuration")


def validate(raw: Mapping[str, Any], *, where: str = "configuration") -> Config:
    """Structs from plain data. Raises ConfigError."""
    _refuse_unknown(raw, config_type(), where, ())
    try:
        config = msgspec.convert(raw, config_type())
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{where}: {_in_words(exc, raw)}") from exc
    _cross_check(config, where)
    return config


def is_passed_on(name: str) -> bool:
    """Return whether the gateway neither reads nor replaces a header of this name."""
    return bool(_HEADER.fullmatch(name)) and name.lower() not in _TAKEN_HEADERS


def _override(raw: dict[str, Any], name: str, text: str) -> None:
    if any("\udc80" <= sign <= "\udcff" for sign in name + text):  # how Python shows bytes that are no text
        raise ConfigError(f"environment variable {name!a} is not UTF-8: give its value as text")
    *sections, key = [part.lower() for part in name.removeprefix("BIASGATE_").split("__")]
    try:
        value: Any = tomllib.loads(f"v = {text}")["v"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text
    target: Any = raw
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"{name}: [{section}] is a list and cannot be set from the environment: use the file")
    target[key] = value


def _refuse_unknown(raw: Any, kind: Any, where: str, path: tuple[str, ...]) -> None:
    """Walk the data alongside the structs, because msgspec's own message does not name a neighbour."""
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, Section) and isinstance(raw, Mapping):
        hints = typing.get_type_hints(kind, include_extras=False)
        names = [field.name for field in msgspec.structs.fields(kind)]
        for key, value in raw.items():
            if key not in names:
                dotted = ".".join((*path, key))
                raise ConfigError(
                    f'{where}: unknown key "{dotted}"{nearest(key, names)}; known here: {", ".join(names)}'
                )
            _refuse_unknown(value, hints[key], where, (*path, key))
    elif typing.get_origin(kind) is list and isinstance(raw, list):
        for index, value in enumerate(raw):
            _refuse_unknown(value, typing.get_args(kind)[0], where, (*path, str(index)))


def _bare(kind: Any) -> Any:
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next((arg for arg in typing.get_args(kind) if arg is not type(None)), kind)
    return kind


def _in_words(exc: msgspec.ValidationError, raw: Mapping[str, Any]) -> str:
    """Key, value where it is a number, what is wrong with it, and the values there are where they are few."""
    message, _, where = str(exc).partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    value, kind = _at(where, raw)
    if isinstance(value, int | float):  # words may be a secret in the wrong place
        where += f" is {str(value).lower()}"
    if message.startswith("Invalid enum value"):
        valid_words = [word for variant in (kind, *typing.get_args(kind)) for word in _words_of(variant)]
        message += f"; known here: {', '.join(valid_words)}" if valid_words else ""
    return f"{where}: {message}" if where else message


def _at(where: str, raw: Any) -> tuple[Any, Any]:
    """The value at a place in msgspec's words, and its type; None where the place is not exact, as in a table's."""
    kind: Any = config_type()
    for name, index in re.findall(r"(\w+)|\[([^]]*)\]", where):
        kind = _bare(kind)
        if name:
            raw, kind = raw[name], typing.get_type_hints(kind)[name]
        elif index.isdigit() or (index == "..." and typing.get_origin(kind) is list):
            raw, kind = raw[int(index)] if index.isdigit() else None, typing.get_args(kind)[0]
        else:
            return None, None
    return raw, kind


def _words_of(kind: Any) -> list[str]:
    if kind is bool:
        return ["true", "false"]
    return [f'"{word}"' for word in typing.get_args(kind)] if typing.get_origin(kind) is Literal else []


def _cross_check(config: Config, where: str) -> None:
    _require_distinct([upstream.name for upstream in config.upstreams], "upstreams", where)
    _require_distinct([key.name for key in config.keys], "keys", where)
    _check_control_keys(config.server, where)
    _check_relayed_paths(config.server, where)
    validate_cors_origins(config.server, where)
    for upstream in config.upstreams:
        _require_scheme(upstream.base_url, f"upstreams.{upstream.name}.base_url", where)
        for name, value in upstream.audit_headers.items():
            if not is_passed_on(name) or not _VALUE.fullmatch(value):
                raise ConfigError(
                    f'{where}: upstreams.{upstream.name}.audit_headers has "{name}", which cannot be sent: name a '
                    "header of the upstream's own, with a value of visible ASCII"
                )
        if "@" in upstream.base_url.partition("://")[2].partition("/")[0]:
            raise ConfigError(
                f"{where}: upstreams.{upstream.name}.base_url names a user: set api_key_env to the variable of a key"
            )
    for name, section in config.auditors.sections.items():
        _require_scheme(section.base_url, f"auditors.{name}.base_url", where)
    header = config.balancing.header
    if header is not None and not is_passed_on(header):
        raise ConfigError(
            f'{where}: balancing.header "{header}" is not a header that reaches an upstream unchanged: name '
            'a header of the client, such as "x-session-id"'
        )
    if 0 < config.audits.live_latency_budget_ratio <= 1:
        raise ConfigError(
            f"{where}: audits.live_latency_budget_ratio is {config.audits.live_latency_budget_ratio:g}: a ratio of "
            "latencies with audits and without; set one above 1, or 0 for no budget"
        )
    for stratum in config.sampling.strata:
        allowed = ["identity_mention", "other", *config.sampling.tags, *(BY_ROUTE + path for path in AUDITED_PATHS)]
        if stratum not in allowed and not stratum.startswith(BY_MODEL):
            raise ConfigError(
                f'{where}: sampling.strata has "{stratum}", which is neither identity_mention, other, model:NAME, '
                f"route:PATH nor one of sampling.tags{nearest(stratum, allowed)}"
            )
    for name in [*config.sampling.strata, *config.sampling.tags]:
        if len(name) > LONGEST_STRATUM:
            raise ConfigError(f'{where}: sampling: "{name}" has more than {LONGEST_STRATUM} characters: shorten it')
    _require_scheme(config.store.url, "store.url", where, ("sqlite:///", "postgresql://"))
    _require_scheme(config.telemetry.otlp_endpoint, "telemetry.otlp_endpoint", where)
    if config.telemetry.evaluation_signal is not None and config.telemetry.otlp_endpoint is None:
        raise ConfigError(
            f'{where}: telemetry.evaluation_signal is "{config.telemetry.evaluation_signal}", but no collector '
            "receives it: set telemetry.otlp_endpoint"
        )
    _require_distinct([schedule.name for schedule in config.audits.schedules], "schedules", where)
    for schedule in config.audits.schedules:
        try:
            Timing.of(schedule.cron, schedule.every_hours * 3600 if schedule.every_hours else None)
        except RequestError as exc:
            raise ConfigError(f'{where}: audits.schedules "{schedule.name}": {exc}') from exc
    try:
        parse_thinking(config.audits.thinking)
    except ValueError as exc:
        raise ConfigError(f"{where}: audits.thinking: {exc}") from None
    _check_reference(config.drift.reference, where)
    for key, is_on in (
        ("judge.keep_reasons", config.auditors.judge.keep_reasons),
        ("counterfactual.keep_answers", config.auditors.counterfactual.keep_answers),
        ("likelihood.keep_shares", config.auditors.likelihood.keep_shares),
    ):
        if is_on and not config.store.keeps_text:
            raise ConfigError(
                f"{where}: auditors.{key} is true, but store.keep_text is not, and what models say of an exchange is "
                "kept only with its text: set store.keep_text to true, or leave the key out"
            )
    try:
        check_sections(config)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc


def _require_distinct(names: list[str], what: str, where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'{where}: two {what} are named "{name}": give each its own name')


def _require_scheme(url: str | None, key: str, where: str, schemes: tuple[str, ...] = ("http://", "https://")) -> None:
    if url is not None and not url.startswith(schemes):
        raise ConfigError(f'{where}: {key} "{mask_url(url)}" must start with {" or ".join(schemes)}')


def _check_control_keys(server: ServerConfig, where: str) -> None:
    names = [key.name for key in server.control_keys] + ([ADMIN] if server.admin_key_env else [])
    for name in names:
        if not name or len(name) > LONGEST_KEY_NAME:
            raise ConfigError(f'{where}: server.control_keys has the name "{name}": 1 to {LONGEST_KEY_NAME} characters')
        if names.count(name) > 1:
            hint = " (server.admin_key_env has that name)" if name == ADMIN and server.admin_key_env else ""
            raise ConfigError(f'{where}: two control keys are named "{name}"{hint}: give each its own name')
    if server.protect_metrics and not names:
        raise ConfigError(
            f"{where}: server.protect_metrics is true, but there is no control key: add one to "
            "[[server.control_keys]], or set server.admin_key_env"
        )


def _check_relayed_paths(server: ServerConfig, where: str) -> None:
    for path in server.relayed_paths:
        named = f'{where}: server.relayed_paths has "{path}"'
        if not _PATH.fullmatch(path):
            raise ConfigError(
                f'{named}: give one exact path of letters, digits, ".", "_", "~" and "-", such as "/tokenize", without '
                "an address, a query, an escape or a slash at its end"
            )
        first = path.split("/")[1]
        if first == "v1":
            raise ConfigError(f"{named}: everything under /v1 is relayed anyway: leave it out")
        if first in OWN_PATHS:
            raise ConfigError(f"{named}, but /{first} is the gateway's own: ask the upstream itself for it")


def _check_reference(reference: dict[str, int | str], where: str) -> None:
    match reference:
        case {"window": int(window)} if len(reference) == 1 and window >= 2:
            return
        case {"run": str(run)} if len(reference) == 1 and run:
            return
    raise ConfigError(
        f"{where}: drift.reference must be {{window = N}} with a whole number of 2 or more, or "
        f'{{run = "ID"}} with the id of a suite run, not {dict(reference)}'
    )


def validate_cors_origins(server: ServerConfig, where: str) -> None:
    """Raise ConfigError, one line that names the value and what to write instead."""
    origins = server.cors_origins
    if isinstance(origins, str):
        if origins != "*":
            raise ConfigError(
                f"{where}: server.cors_origins is {json.dumps(origins)}: give a list of origins, such as "
                '["https://app.example"], or "*" for any'
            )
        return
    for origin in origins:
        if problem := _origin_problem(origin, is_alone=len(origins) == 1):
            raise ConfigError(f"{where}: server.cors_origins has {json.dumps(origin)}: {problem}")


def _origin_problem(origin: str, *, is_alone: bool) -> str | None:
    if origin == "*":
        return None if is_alone else '"*" allows every origin: list it alone, or leave it out'
    if origin == "null":
        return "any sandboxed page and any file sends that: serve the page from an address and name that"
    parts = _ORIGIN.fullmatch(origin)
    if parts is None:
        return (
            'write scheme://host or scheme://host:port as browsers send it, such as "https://app.example", without a '
            "path, a slash at its end, a user or a pattern"
        )
    scheme, port = parts["scheme"].lower(), parts["port"]
    if port is not None and not 1 <= int(port) <= 65535:
        return "its port is not between 1 and 65535"
    if port is not None and (int(port) == _DEFAULT_PORTS.get(scheme) or port.startswith("0")):
        sent_port = "" if int(port) == _DEFAULT_PORTS.get(scheme) else f":{int(port)}"
        return f'browsers do not send the port like that: write "{scheme}://{parts["host"]}{sent_port}"'
    return None
