"""Defines which suite runs may be asked for, over HTTP, by a schedule or a change of model, and what follows."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auditors.text.identity import AXES
from auditors.text.own_prompts import PromptFileError, read_prompts
from auditors.text.thinking import OWNED_FIELDS, parse_thinking
from gateway.errors import ConflictError, RequestError, nearest

MITIGATIONS = ("none", "abstract", "detailed")

Name = Annotated[str, Meta(max_length=500)]
MOST_SAMPLES = 1_000
MOST_FEW_SHOT = 64
MOST_IN_FLIGHT = 1_024
MOST_EXTRA_BYTES = 16_384
TAKEN = frozenset({*OWNED_FIELDS, "temperature"})
LARGEST = 2**53 - 1
"""Every reader of JSON tells whole numbers up to here apart (RFC 8259)."""


class AuditRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The suites to run: a run for each suite named. Fields other than `suites` mean the same as in `audit run`."""

    suites: Annotated[list[Name], Meta(max_length=100)] | Name
    """Names, or "all"."""
    model: Name
    mode: Literal["sample", "exact"] = "sample"
    protocol: Literal["paper", "release", "corrected"] = "corrected"
    data: Literal["canonical", "embedded"] | None = None
    """Default: canonical, or the built-in items of a suite that has no other. "all" takes these in any case."""
    limit: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    precision: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """Stop once the headline number is known to plus or minus this share of its scale."""
    repeat_share: Annotated[float, Meta(gt=0, le=1)] | None = None
    """Share of the items asked once more, to see what changes where nothing does."""
    seed: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    samples: Annotated[int, Meta(ge=1, le=MOST_SAMPLES)] = 1
    mitigation: Name = "none"
    """A name; a path that came over the network is never opened."""
    few_shot: Annotated[int, Meta(ge=0, le=MOST_FEW_SHOT)] = 0
    subset: Name | None = None
    axes: Annotated[list[Name], Meta(min_length=1, max_length=100)] | None = None
    """Ask only about these axes of the suite."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    judge_model: Name | None = None
    """Default: the model of [auditors.judge], which is served where that section says."""
    thinking: Name = "default"
    """off, on, budget=N or default: whether the model thinks before it answers."""
    extra_body: dict[str, Any] | None = None
    """Further fields of every request to the model."""
    keep_reasoning: bool = False
    concurrency: Annotated[int, Meta(ge=1, le=MOST_IN_FLIGHT)] | None = None


class AuditStart(AuditRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of now, which may bring a file: what a schedule may not."""

    prompts: str | None = None
    """The text of a file of own prompts, for the suite of that name: see `biasgate audit prompts`."""


OWN_PROMPTS: dict[str, Any] = {
    "name": "prompts",
    "modes": ["sample"],
    "protocols": ["corrected"],
    "items": {"canonical": 0},
    "data": "built-in",
    "axes": list(AXES),
    "few_shots": [0],
    "has_follow_up": False,
}
"""An entry as the catalogue would have it. It is in none: "all" does not mean it."""
LEAST_SAMPLES = 2
"""Least number of samples of own prompts: asking again is the control."""


def require_prompts(content: str) -> None:
    """Raises RequestError for the first line that cannot be taken."""
    try:
        read_prompts(content.encode("utf-8", "replace"))
    except PromptFileError as exc:
        raise RequestError(f"prompts: {exc}") from None


def choose(request: AuditRequest, catalogue: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the entries to run, and why others of "all" are not. Raises RequestError or ConflictError if named."""
    by_name = {str(suite["name"]): suite for suite in catalogue}
    names = list(by_name) if request.suites == "all" else _names(request.suites)
    if OWN_PROMPTS["name"] in names or (isinstance(request, AuditStart) and request.prompts is not None):
        if names != [OWN_PROMPTS["name"]]:
            raise RequestError('prompts are asked by the suite "prompts" alone: name no other')
        if not isinstance(request, AuditStart) or request.prompts is None:
            raise RequestError(
                'prompts: its questions are yours: send the text of the file to POST /audits as "prompts", or use '
                "biasgate audit prompts FILE.jsonl"
            )
        if request.samples < LEAST_SAMPLES:
            raise RequestError(
                f"prompts: samples must be at least {LEAST_SAMPLES}, not {request.samples}: asking the same prompt "
                "again is the control"
            )
        for field, demanded in (("precision", request.precision), ("repeat_share", request.repeat_share)):
            if demanded is not None:
                raise RequestError(f"prompts: {field} is not offered: use a limit, and more samples")
        by_name = {OWN_PROMPTS["name"]: OWN_PROMPTS}
    for name in names:
        if name not in by_name:
            raise RequestError(f'unknown suite "{name}"{nearest(name, set(by_name))}; known: {", ".join(by_name)}')
    require_askable(request)
    chosen, left_out = [], {}
    for name in names:
        try:
            _require_offered(request, by_name[name])
            chosen.append(by_name[name])
        except (RequestError, ConflictError) as exc:
            if request.suites != "all" or (name == names[-1] and not chosen):
                raise
            left_out[name] = str(exc)
    return chosen, left_out


def require_askable(request: AuditRequest) -> None:
    """Raises RequestError for a mitigation, thinking, further fields or a mode that a suite does not take."""
    if request.mitigation not in MITIGATIONS:
        raise RequestError(
            f'mitigation "{request.mitigation}" is not offered{nearest(request.mitigation, set(MITIGATIONS))}; '
            f"offered: {', '.join(MITIGATIONS)}; a text of your own only with biasgate audit run --mitigation FILE"
        )
    try:
        thinking = parse_thinking(request.thinking)
    except ValueError as exc:
        raise RequestError(str(exc)) from None
    if request.mode == "exact" and thinking.mode in ("on", "budget"):
        raise RequestError('mode "exact" reads the first words of an answer: it needs "thinking": "off"')
    if request.mode == "exact" and request.samples != 1:
        raise RequestError(f'mode "exact" reads probabilities, not replies: samples must be 1, not {request.samples}')
    if request.mode == "exact" and request.temperature is not None:
        raise RequestError('mode "exact" reads the probabilities at the protocol\'s own temperature: leave it out')
    if clashing := sorted((request.extra_body or {}).keys() & TAKEN):
        raise RequestError(f'extra_body: "{clashing[0]}" is set by the run itself: leave it out')
    if request.extra_body and len(msgspec.json.encode(request.extra_body)) > MOST_EXTRA_BYTES:
        raise RequestError(f"extra_body: longer than {MOST_EXTRA_BYTES} bytes as JSON: leave fields out")


def _data(request: AuditRequest, suite: dict[str, Any]) -> str:
    data = request.data or "canonical"
    may_differ = request.data is None or request.suites == "all"
    return "embedded" if may_differ and data not in suite["items"] else data


def _names(suites: list[str] | str) -> list[str]:
    names = list(dict.fromkeys([suites] if isinstance(suites, str) else suites))
    if not names:
        raise RequestError('suites is empty: name at least one suite, or write "all"')
    return names


def _require_offered(request: AuditRequest, suite: dict[str, Any]) -> None:
    name = suite["name"]
    for word, value, offered in (
        ("mode", request.mode, suite["modes"]),
        ("protocol", request.protocol, suite["protocols"]),
        ("data", _data(request, suite), list(suite["items"])),
    ):
        if value not in offered:
            raise RequestError(f'{name}: {word} "{value}" is not offered; offered: {", ".join(offered)}')
    few_shots = suite.get("few_shots", [request.few_shot])  # an auditor of an earlier version does not say
    if request.few_shot not in few_shots:
        offered = ", ".join(map(str, few_shots))
        raise RequestError(f"{name}: few_shot {request.few_shot} is not offered; offered: {offered}")
    for axis in request.axes or ():
        if axis not in suite["axes"]:
            near = nearest(axis, suite["axes"])
            raise RequestError(f'{name}: axis "{axis}" is not offered{near}; offered: {", ".join(suite["axes"])}')
    for field, demanded in (("precision", request.precision), ("repeat_share", request.repeat_share)):
        if demanded is not None and suite.get("has_follow_up"):
            raise RequestError(f"{name}: {field} is not offered: it makes further questions of its replies")
    if _data(request, suite) == "canonical" and suite["data"] in ("absent", "damaged"):
        raise ConflictError(
            f"{name}: the canonical data is {suite['data']} where the auditor runs: "
            f'run `biasgate datasets fetch {name}` there, or ask for "data": "embedded"'
        )


def options_of(request: AuditRequest, suite: dict[str, Any]) -> dict[str, Any]:
    """The plain data of benchmarks.run.runner.RunOptions."""
    fields = msgspec.structs.asdict(request)
    del fields["suites"]
    if fields.get("prompts") is None:  # an auditor of an earlier version knows no such field
        fields.pop("prompts", None)
    return {"suite": suite["name"], **fields, "data": _data(request, suite)}
