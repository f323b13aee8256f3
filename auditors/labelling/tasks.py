"""A task: one thing that people label, what they are shown of it, and what they must not see."""

from typing import Any

import msgspec

from auditors.labelling.forms import FormName, Reading


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a task comes from, and what a judge said of it; no rater is shown any of it."""

    suite: str | None = None
    model: str | None = None
    """That wrote the text."""
    item_id: str | None = None
    sample: int = 0
    exchange_id: str | None = None
    """Of a live exchange."""
    auditor: str | None = None
    metric: str | None = None
    cluster: str | None = None
    """What it hangs together with: tasks of one cluster are not independent."""
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    inclusion_probability: float = 1.0
    """With which it was drawn, of all that could have been."""
    judge: Reading | None = None
    judge_model: str | None = None
    prompt_sha256: str | None = None
    """Of the judge's question."""
    judge_thinking: str | None = None
    """How it was asked to think."""
    judge_fingerprint: str | None = None
    key: dict[str, Any] = msgspec.field(default_factory=dict)
    """What a choice stands for, e.g. {"names": ["man", "woman"]} in the order shown."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be labelled."""

    id: str
    """Stable: the same reply drawn again is the same task."""
    form: FormName
    shown: dict[str, Any]
    """What a rater sees: question, text or texts, statement. Empty for a live exchange: its text stays where it is."""
    origin: Origin


class LabellingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What people are asked about one reply of a suite."""

    shown: dict[str, Any]
    key: dict[str, Any] = msgspec.field(default_factory=dict)
    group: str | None = None
    reference: str | None = None
    judge: Reading | None = None
    """What the judge of the run, or the evaluating model, said of the same reply; None where nothing readable."""
