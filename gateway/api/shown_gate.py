"""What a gate says of a run, as it is shown; see `run_gates`, which judges."""

import msgspec


class GateWanted(msgspec.Struct, frozen=True, kw_only=True):
    audit_id: str
    requirements: list[str]
    allow_unvalidated_judge: bool


class ShownVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement, put to one number of the run."""

    requirement: str
    where: str
    """Keys of the number, e.g. "axis=gender"; "total"; "not judged" where it could be put to none."""
    passed: bool
    found: float | None
    """The field that the requirement names."""
    value: float | None
    lower: float | None
    upper: float | None
    n: int | None
    n_excluded: int | None
    reason: str | None
    """Why there is no number, which fails."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    passed: bool
    verdicts: list[ShownVerdict]
