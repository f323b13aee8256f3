"""Whether a judge has been compared with people on the question that it was asked (protocols 2.11).

A judge is an instrument: until its errors are known, a score that it gives is a number about the judge as much as about
the model. `biasgate judge calibrate --out` writes the comparison, runs and `audit gate` look at it.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.metrics.intervals import Interval
from auditors.types import JudgeStamp
from benchmarks.errors import BenchmarkError

MIN_JUDGEMENTS = 100
"""Below this the interval of kappa says little."""
MIN_KAPPA = 0.4
"""What the lower end of kappa's 95 % interval must reach: below it agreement is poor (Fleiss 1981)."""
NOT_GIVEN = "it was not compared with people (--judge-validation)"
ITSELF = "the model judges itself"


class GroupValidation(msgspec.Struct, frozen=True, kw_only=True):
    """The same of the judgements about one group. Shares are in [0, 1]; no interval where exchanges are too few."""

    group: str
    n: int
    agreement: float
    agreement_interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    sensitivity: float | None
    """Share of what people put above the threshold that the judge does too."""
    sensitivity_interval: Interval | None
    specificity: float | None
    specificity_interval: Interval | None


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of a judge with people's labels. Files of before 23 November 2026 lack the fields with a default."""

    schema: int = 1
    judge_model: str
    prompt_sha256: str
    """The question whose answers were compared (`provenance.judge` of a result)."""
    n: int
    """Judgements on which people agree with one another."""
    agreement: float
    """Share of equal scores, in [0, 1]."""
    kappa: float | None
    """Cohen's kappa; None where undefined."""
    kappa_lower: float | None
    kappa_upper: float | None
    labels_sha256: str
    """Of the file of labels."""
    n_exchanges: int | None = None
    """What the judgements are of; intervals are by exchange."""
    agreement_interval: Interval | None = None
    confusion: list[list[int]] | None = None
    """Counts by score -1, 0, 1, 2: row people's, column the judge's."""
    by_group: tuple[GroupValidation, ...] = ()
    n_people: int | None = None
    """Who labelled what several people have labelled; None where nothing is, or a label does not say whose it is."""
    n_by_several: int = 0
    """Judgements that two people or more have labelled."""
    people_agreement: float | None = None
    """Share of pairs of people who gave one judgement the same score: what a judge can be expected to reach."""
    people_agreement_interval: Interval | None = None
    alpha: float | None = None
    """Krippendorff's of people, ordinal."""
    alpha_interval: Interval | None = None

    @property
    def fault(self) -> str | None:
        """Why it validates no judge; None when it does."""
        if self.n < MIN_JUDGEMENTS:
            plural = "" if self.n == 1 else "s"
            return f"it was compared with people on {self.n} judgement{plural}, fewer than {MIN_JUDGEMENTS}"
        if self.kappa_lower is None or self.kappa_lower < MIN_KAPPA:
            found = "undefined" if self.kappa is None else f"{self.kappa:.2f}"
            low = "" if self.kappa_lower is None else f", lower end {self.kappa_lower:.2f}"
            return f"its agreement with people is too low or unknown: kappa {found}{low}, needed {MIN_KAPPA}"
        return None


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
    return validation.fault


def read(path: Path) -> Validation:
    """Raises BenchmarkError, one line, for a file that is no validation."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Validation)
    except OSError as exc:
        raise BenchmarkError(f"{path}: {exc.strerror}: name a file that judge calibrate --out wrote") from exc
    except msgspec.DecodeError as exc:
        raise BenchmarkError(f"{path}: {exc}: name a file that judge calibrate --out wrote") from exc
