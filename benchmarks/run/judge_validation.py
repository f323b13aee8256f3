"""Whether a judge has been compared with people on the question that it was asked (protocols 2.11).

A judge is an instrument: until its errors are known, a score that it gives is a number about the judge as much as about
the model. `biasgate judge calibrate --out` writes the comparison, runs and `audit gate` look at it.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.judge_validation import Validation, decoded
from auditors.text.user_files import read_utf8
from auditors.types import JudgeStamp
from benchmarks.errors import BenchmarkError

NOT_GIVEN = "it was not compared with people (--judge-validation)"
ITSELF = "the model judges itself"


class JudgeUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The judge of a run: one entry `judge` of result.json (contract 2)."""

    model: str
    validated: bool
    reason: str | None = None
    """Why it is not validated."""


def judge_used(
    judges: Sequence[str], model: str, stamps: Sequence[JudgeStamp], validation: Validation | None
) -> JudgeUsed:
    """
    Args:
        judges: the models that judged, at least one.
        model: the model under test.
        stamps: every question that a judge was asked.
        validation: of the judge, if there is one.
    """
    reason = _fault(judges, model, stamps, validation)
    return JudgeUsed(model=", ".join(judges), validated=reason is None, reason=reason)


def _fault(
    judges: Sequence[str], model: str, stamps: Sequence[JudgeStamp], validation: Validation | None
) -> str | None:
    if model in judges:
        return ITSELF
    if validation is None:
        return NOT_GIVEN
    if list(judges) != [validation.judge_model]:
        return f'the comparison with people is of the judge "{validation.judge_model}"'
    if any(stamp.prompt_sha256 != validation.prompt_sha256 for stamp in stamps):
        return "the comparison with people is of another question"
    return _other_setting(stamps, validation) or _other_model(stamps, validation) or validation.fault


def _other_setting(stamps: Sequence[JudgeStamp], validation: Validation) -> str | None:
    if validation.thinking is None:
        return "the comparison with people does not say whether the judge thought: make it again (judge calibrate)"
    said = {stamp.thinking for stamp in stamps} - {validation.thinking}
    if None in said:
        return "the run does not say whether its judge thought"
    if said:
        return (
            f"the comparison with people is of the judge with thinking {validation.thinking}, "
            f"the run asked it with thinking {', '.join(sorted(filter(None, said)))}"
        )
    return None


def _other_model(stamps: Sequence[JudgeStamp], validation: Validation) -> str | None:
    """Both sides' servers must have said what they serve; many do not."""
    said = {stamp.fingerprint for stamp in stamps if stamp.fingerprint is not None}
    changed = sorted(said - set(validation.fingerprints))
    if not validation.fingerprints or not changed:
        return None
    return (
        f"the model behind its name changed: compared was {', '.join(validation.fingerprints)}, "
        f"the run had {', '.join(changed)}"
    )


def read(path: Path) -> Validation:
    """Raises BenchmarkError, one line, for a file that is no validation."""
    try:
        content = read_utf8(path)
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a file that judge calibrate --out wrote") from exc
    try:
        return decoded(content)
    except ValueError as exc:
        raise BenchmarkError(f"{path}: {exc}") from exc
