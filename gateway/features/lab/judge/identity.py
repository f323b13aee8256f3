"""Finds the judge (model, question, thinking) that labels speak about, by the labels or by the given options."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from auditors.text.thinking import parse_thinking
from gateway.errors import GatewayError

HOW = (
    "--judge-model M, --prompt-sha256 HASH (64 hex digits) and --thinking off|on|budget=N|default: see provenance.judge"
)


class IdentityError(GatewayError):
    """Labels of several judges, or of an unnamed judge."""


class JudgeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The judge whose score a label stands next to, as the label states it; None where it does not say."""

    judge_model: str | None = None
    prompt_sha256: str | None = None
    judge_thinking: str | None = None
    judge_fingerprint: str | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A judge: scores of two that differ in any of this but the fingerprints are of two judges."""

    model: str
    prompt_sha256: str
    thinking: str
    """Setting of thinking, as `auditors.text.thinking` writes it."""
    fingerprints: tuple[str, ...] = ()
    """Fingerprints of the model that its servers reported under the name; empty where none reported any."""


def identity_of(
    seen: Iterable[JudgeSeen], *, model: str | None, prompt_sha256: str | None, thinking: str | None
) -> Identity:
    """Return the only judge of these labels; None options leave it to the labels. Raises IdentityError, one line."""
    listed = list(seen)
    prints = tuple(sorted({label.judge_fingerprint for label in listed if label.judge_fingerprint}))
    if len(prints) > 1:
        raise IdentityError(
            f"the model behind the judge changed while these were scored, its servers said {', '.join(prints)}: "
            "calibrate what each of them scored by itself"
        )
    identity = Identity(
        model=_single_value("--judge-model", model, [label.judge_model for label in listed]),
        prompt_sha256=_single_value("--prompt-sha256", prompt_sha256, [label.prompt_sha256 for label in listed]),
        thinking=_single_value("--thinking", thinking, [label.judge_thinking for label in listed]),
        fingerprints=prints,
    )
    if not re.fullmatch(r"[0-9a-f]{64}", identity.prompt_sha256):
        raise IdentityError(f'--prompt-sha256 "{identity.prompt_sha256[:70]}" is not a SHA-256: give {HOW}')
    try:
        return msgspec.structs.replace(identity, thinking=str(parse_thinking(identity.thinking)))
    except ValueError as exc:
        raise IdentityError(str(exc)) from exc


def require_same(labels: Iterable[JudgeSeen], other_labels: Iterable[JudgeSeen], path: Path) -> None:
    """Raises IdentityError if the others name a judge that is not that of the labels; what names none may be it."""
    other_labels = set(other_labels)
    for field in JudgeSeen.__struct_fields__:
        named, strange = ({getattr(label, field) for label in listed} - {None} for listed in (labels, other_labels))
        if named and strange - named:
            raise IdentityError(
                f"{path}: its {field} is {', '.join(sorted(strange))}, that of the labels {', '.join(sorted(named))}: "
                "error rates of one judge correct no other"
            )


def _single_value(option: str, stated: str | None, label_values: Sequence[str | None]) -> str:
    names = sorted({value for value in label_values if value is not None})
    if len(names) > 1:
        raise IdentityError(f"the labels are of several judges, {option[2:]} is {', '.join(names)}: take those of one")
    if stated is not None and names and stated != names[0]:
        raise IdentityError(f'{option} "{stated}" is not that of the labels, "{names[0]}"')
    chosen = stated or (names[0] if names else None)
    if chosen is None:
        raise IdentityError(f"the labels do not name the judge they are compared with: give {HOW}")
    return chosen
