"""Which judge labels speak about: its model, its question and whether it thinks, by the labels or by what is given."""

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
    """Labels of several judges, or of one that nobody names."""


class JudgeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What a label says of the judge whose score stands beside it; None where it does not say."""

    judge_model: str | None = None
    prompt_sha256: str | None = None
    judge_thinking: str | None = None
    judge_fingerprint: str | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A judge: scores of two that differ in any of this but the fingerprints are of two judges."""

    model: str
    prompt_sha256: str
    thinking: str
    """As `auditors.text.thinking` writes it."""
    fingerprints: tuple[str, ...] = ()
    """What its servers said that they serve under the name; empty where none said so."""


def identity_of(
    seen: Iterable[JudgeSeen], *, model: str | None, prompt_sha256: str | None, thinking: str | None
) -> Identity:
    """The one judge of these labels.

    Args:
        seen: what each label with a judge's score says.
        model: given beside them, as the next two; None leaves it to the labels.
        prompt_sha256: of its question.
        thinking: how it was asked to think.

    Raises: IdentityError, one line.
    """
    listed = list(seen)
    prints = tuple(sorted({one.judge_fingerprint for one in listed if one.judge_fingerprint}))
    if len(prints) > 1:
        raise IdentityError(
            f"the model behind the judge changed while these were scored, its servers said {', '.join(prints)}: "
            "calibrate what each of them scored by itself"
        )
    found = Identity(
        model=_one("--judge-model", model, [one.judge_model for one in listed]),
        prompt_sha256=_one("--prompt-sha256", prompt_sha256, [one.prompt_sha256 for one in listed]),
        thinking=_one("--thinking", thinking, [one.judge_thinking for one in listed]),
        fingerprints=prints,
    )
    if not re.fullmatch(r"[0-9a-f]{64}", found.prompt_sha256):
        raise IdentityError(f'--prompt-sha256 "{found.prompt_sha256[:70]}" is no sha256: give {HOW}')
    try:
        return msgspec.structs.replace(found, thinking=str(parse_thinking(found.thinking)))
    except ValueError as exc:
        raise IdentityError(str(exc)) from exc


def require_same(labels: Iterable[JudgeSeen], others: Iterable[JudgeSeen], path: Path) -> None:
    """Raises IdentityError if the others name a judge that is not that of the labels; what names none may be it."""
    others = set(others)
    for field in JudgeSeen.__struct_fields__:
        named, strange = ({getattr(one, field) for one in listed} - {None} for listed in (labels, others))
        if named and strange - named:
            raise IdentityError(
                f"{path}: its {field} is {', '.join(sorted(strange))}, that of the labels {', '.join(sorted(named))}: "
                "error rates of one judge correct no other"
            )


def _one(option: str, given: str | None, said: Sequence[str | None]) -> str:
    names = sorted({one for one in said if one is not None})
    if len(names) > 1:
        raise IdentityError(f"the labels are of several judges, {option[2:]} is {', '.join(names)}: take those of one")
    if given is not None and names and given != names[0]:
        raise IdentityError(f'{option} "{given}" is not that of the labels, "{names[0]}"')
    wanted = given or (names[0] if names else None)
    if wanted is None:
        raise IdentityError(f"the labels do not say which judge they are beside: give {HOW}")
    return wanted
