"""What may be asked of suite runs, over HTTP, by a schedule or after a change of model, and the runs it comes to."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.errors import ConflictError, RequestError, nearest

MITIGATIONS = ("none", "abstract", "detailed")

Name = Annotated[str, Meta(max_length=500)]
MOST_SAMPLES = 1_000
MOST_FEW_SHOT = 64
MOST_IN_FLIGHT = 1_024
LARGEST = 2**53 - 1
"""Every reader of JSON tells whole numbers up to here apart (RFC 8259)."""


class AuditRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run: one run for each suite named. Fields other than `suites` mean what they mean to `audit run`."""

    suites: Annotated[list[Name], Meta(max_length=100)] | Name
    """Names, or "all"."""
    model: Name
    mode: Literal["sample", "exact"] = "sample"
    protocol: Literal["paper", "release", "corrected"] = "corrected"
    data: Literal["canonical", "embedded"] | None = None
    """Default: canonical, or the built-in items of a suite that has no other. "all" takes these in any case."""
    limit: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    seed: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    samples: Annotated[int, Meta(ge=1, le=MOST_SAMPLES)] = 1
    mitigation: Name = "none"
    """A name; a path that came over the network is never opened."""
    few_shot: Annotated[int, Meta(ge=0, le=MOST_FEW_SHOT)] = 0
    subset: Name | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    judge_model: Name | None = None
    """Default: the model of [auditors.judge], which is served where that section says."""
    concurrency: Annotated[int, Meta(ge=1, le=MOST_IN_FLIGHT)] | None = None


def choose(asked: AuditRequest, known: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The catalogue entries asked for, and those of "all" that do not offer what is asked of them.

    Raises: RequestError or ConflictError for a suite that was named and cannot be run, or when none can.
    """
    by_name = {str(suite["name"]): suite for suite in known}
    names = list(by_name) if asked.suites == "all" else _names(asked.suites)
    for name in names:
        if name not in by_name:
            raise RequestError(f'unknown suite "{name}"{nearest(name, set(by_name))}; known: {", ".join(by_name)}')
    if asked.mitigation not in MITIGATIONS:
        raise RequestError(
            f'mitigation "{asked.mitigation}" is not offered{nearest(asked.mitigation, set(MITIGATIONS))}; offered: '
            f"{', '.join(MITIGATIONS)}; a text of your own only with biasgate audit run --mitigation FILE"
        )
    chosen, left_out = [], {}
    for name in names:
        try:
            _require_offered(asked, by_name[name])
            chosen.append(by_name[name])
        except (RequestError, ConflictError) as exc:
            if asked.suites != "all" or (name == names[-1] and not chosen):
                raise
            left_out[name] = str(exc)
    return chosen, left_out


def _data(asked: AuditRequest, suite: dict[str, Any]) -> str:
    wanted = asked.data or "canonical"
    may_differ = asked.data is None or asked.suites == "all"
    return "embedded" if may_differ and wanted not in suite["items"] else wanted


def _names(suites: list[str] | str) -> list[str]:
    names = list(dict.fromkeys([suites] if isinstance(suites, str) else suites))
    if not names:
        raise RequestError('suites is empty: name at least one suite, or write "all"')
    return names


def _require_offered(asked: AuditRequest, suite: dict[str, Any]) -> None:
    name = suite["name"]
    for word, value, offered in (
        ("mode", asked.mode, suite["modes"]),
        ("protocol", asked.protocol, suite["protocols"]),
        ("data", _data(asked, suite), list(suite["items"])),
    ):
        if value not in offered:
            raise RequestError(f'{name}: {word} "{value}" is not offered; offered: {", ".join(offered)}')
    if _data(asked, suite) == "canonical" and suite["data"] in ("absent", "damaged"):
        raise ConflictError(
            f"{name}: the canonical data is {suite['data']} where the auditor runs: "
            f'run `biasgate datasets fetch {name}` there, or ask for "data": "embedded"'
        )


def options_of(asked: AuditRequest, suite: dict[str, Any]) -> dict[str, Any]:
    """The plain data of benchmarks.run.runner.RunOptions."""
    fields = msgspec.structs.asdict(asked)
    del fields["suites"]
    return {"suite": suite["name"], **fields, "data": _data(asked, suite)}
