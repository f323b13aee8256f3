"""The forms of runs, schedules, comparisons and acknowledgements for a viewer, without people's or models' words."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.exceptions import PermissionDeniedException

from gateway.config.audit_request import AuditRequest
from gateway.control_keys import Holder
from gateway.store.acknowledgements import Acknowledgement
from gateway.store.runs import Run
from gateway.store.schedules import Schedule

HIDDEN = "shown to administrators only: it may quote what people or models wrote"
_TEXT_OPTIONS = ("extra_body", "mitigation_text")


class _Comparison(msgspec.Struct, frozen=True):
    comparison: dict[str, Any]
    n_flipped: int
    flips: msgspec.Raw


def may_read_text(holder: Holder) -> bool:
    """Return whether the holder's role opens what people and models wrote."""
    return holder.role == "admin"


def shown_options(options: Mapping[str, Any], holder: Holder) -> dict[str, Any]:
    """Return the options of a run; for a viewer with digests in place of those that may hold text."""
    if may_read_text(holder):
        return dict(options)
    return {name: hide(value) if name in _TEXT_OPTIONS and value else value for name, value in options.items()}


def hide(value: object) -> dict[str, str]:
    """Return what stands in place of text: a digest, so that two settings that differ are still told apart."""
    digest = hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
    return {"hidden_sha256": digest[:16]}


def shown_error(error: str | None, holder: Holder) -> str | None:
    """Return why a run failed; for a viewer, that it failed. None for a run without an error."""
    return error if error is None or may_read_text(holder) else f"why it failed is {HIDDEN}"


def shown_result(run: Run, holder: Holder) -> bytes:
    content = (run.result or "").encode()
    if may_read_text(holder) or not _has_text(run):
        return content
    result = msgspec.json.decode(content, type=dict[str, Any])
    return msgspec.json.encode(result | {"extra_body": hide(result.get("extra_body"))})


def require_report(run: Run, holder: Holder) -> None:
    """Raise PermissionDeniedException for a viewer where the report of a run prints text."""
    if not may_read_text(holder) and _has_text(run):
        raise PermissionDeniedException(
            detail=f'the report of audit {run.id} prints its extra_body, which is {HIDDEN}: "/audits/{run.id}/result" '
            "has its numbers"
        )


def shown_comparison(content: bytes, holder: Holder) -> bytes:
    """Return a comparison as JSON; for a viewer with null in place of the items that flipped."""
    if may_read_text(holder):
        return content
    answer = msgspec.json.decode(content, type=_Comparison)
    differing = answer.comparison["differing"]
    hidden = {name: list(map(_hide_words, differing[name])) for name in _TEXT_OPTIONS if name in differing}
    comparison = answer.comparison | {"differing": differing | hidden}
    return msgspec.json.encode(
        {"comparison": comparison, "n_flipped": answer.n_flipped, "flips": None, "no_flips_because": HIDDEN}
    )


def shown_schedule(schedule: Schedule, holder: Holder) -> Schedule:
    """Return a schedule; for a viewer without the fields that a user added to every request."""
    if may_read_text(holder) or not schedule.request.extra_body:
        return schedule
    request: AuditRequest = msgspec.structs.replace(schedule.request, extra_body=hide(schedule.request.extra_body))
    return msgspec.structs.replace(schedule, request=request)


def shown_acknowledgement(entry: Acknowledgement, holder: Holder) -> Acknowledgement:
    """Return who lowered an alarm and why; for a viewer, only that it was lowered."""
    return entry if may_read_text(holder) else msgspec.structs.replace(entry, by="", reason="", client=None)


def _hide_words(value: str) -> str:
    return f"hidden, sha256 {hide(value)['hidden_sha256']}"


def _has_text(run: Run) -> bool:
    return any(run.options.get(name) for name in _TEXT_OPTIONS)
