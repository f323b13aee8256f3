"""Reads names and instructions of the policies of `[[mitigation]]`, and checks what policies may not say."""

import json
import re
from pathlib import Path

from auditors.text.identity import AXES
from auditors.text.mitigations import NAMES, NONE, TEXTS, MitigationTextError, category, file_name, own_text
from gateway.config.loading import is_passed_on
from gateway.config.schema import QUESTION_MEMBERS, Config
from gateway.errors import ConfigError, nearest
from gateway.features.mitigation.config import FILTERED_ENDPOINTS, MITIGATION, MitigationConfig
from gateway.features.mitigation.filter_plan import plan_of


def policy_name(config: MitigationConfig, place: int) -> str:
    """Its own, or one by its place in the file, counted from 1."""
    return config.name or f"policy-{place}"


def instruction_of(setting: str) -> tuple[str, str | None]:
    """Name and text of an instruction: none, abstract, detailed or a file. Raises ConfigError if unreadable."""
    if setting == NONE:
        return NONE, None
    if setting in TEXTS:
        words = [category(axis) for axis in AXES]
        return setting, TEXTS[setting].format(category=f"{', '.join(words[:-1])} or {words[-1]}")
    try:
        text = own_text(Path(setting))
    except MitigationTextError as exc:
        raise ConfigError(f"instruction {setting}: {exc}") from exc
    if text is None:
        raise ConfigError(
            f'instruction "{setting}" is neither a file nor one of {", ".join(NAMES)}{nearest(setting, NAMES)}'
        )
    return file_name(text), text


_POLICY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""It stands in a header, a label and a column of the store."""


def check_mitigation(config: Config) -> None:
    """Raise ConfigError, one line that names the policy, the key and the value."""
    policies = MITIGATION.of(config)
    names = [policy_name(policy, place) for place, policy in enumerate(policies, 1)]
    keys, routes = [key.name for key in config.keys], list(QUESTION_MEMBERS)
    for name, policy in zip(names, policies, strict=True):
        if not _POLICY_NAME.fullmatch(name):
            raise ConfigError(
                f'mitigation has the name "{name[:100]}": use 1 to 64 letters, digits and -, _, . of ASCII'
            )
        if names.count(name) > 1:
            raise ConfigError(f'two policies of mitigation are named "{name}": give each its own name')
        match = policy.match
        if match.route is not None and match.route not in routes:
            raise ConfigError(
                f'mitigation "{name}": match.route "{match.route}" is not an endpoint that policies '
                f"cover{nearest(match.route, routes)}; known here: {', '.join(routes)}"
            )
        if match.key is not None and match.key not in keys:
            near = nearest(match.key, keys)
            raise ConfigError(f'mitigation "{name}": match.key "{match.key}" is not the name of any of [[keys]]{near}')
        _check_unit(policy, f'mitigation "{name}"')
        try:
            _, text = instruction_of(policy.instruction)
            _check_filters(policy, text)
        except ConfigError as exc:
            raise ConfigError(f'mitigation "{name}": {exc}') from exc


def _check_unit(policy: MitigationConfig, named: str) -> None:
    header = policy.conversation_header
    if header is None:
        return
    if policy.unit == "request":
        raise ConfigError(
            f'{named}: conversation_header is "{header}", but unit is "request", by which no conversation is looked '
            'for: set unit = "conversation", or leave conversation_header out'
        )
    if not is_passed_on(header):
        raise ConfigError(
            f"{named}: conversation_header {json.dumps(header)} is not a header that reaches an upstream unchanged: "
            'name a header of the client, such as "x-session-id"'
        )


def _check_filters(policy: MitigationConfig, instruction: str | None) -> None:
    query, response = policy.query_filter, policy.response_filter
    for name, filter in (("query_filter", query), ("response_filter", response)):
        if filter is not None and filter.then == "instruct" and instruction is None:
            raise ConfigError(f'{name}.then is "instruct", and the policy has no instruction: set instruction')
    plan_of(query, "query_filter")
    plan_of(response, "response_filter")
    if response is not None:
        route = policy.match.route
        if route is not None and route not in FILTERED_ENDPOINTS:
            raise ConfigError(
                f'match.route is "{route}", of which no answer can be filtered: remove response_filter; known here: '
                f"{', '.join(FILTERED_ENDPOINTS)}"
            )
