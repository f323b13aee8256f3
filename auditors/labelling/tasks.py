"""A task: one thing that people label, what they are shown of it, and what they must not see."""

from typing import Any

import msgspec

from auditors.labelling.forms import FormName, Reading
from auditors.streams.label_sequence import Draw


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Origin of a task, and a judge's reading of it; no rater is shown any of it."""

    suite: str | None = None
    model: str | None = None
    item_id: str | None = None
    sample: int = 0
    exchange_id: str | None = None
    auditor: str | None = None
    metric: str | None = None
    cluster: str | None = None
    """Cluster to which the task belongs: tasks of the same cluster are not independent."""
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    inclusion_probability: float = 1.0
    """Probability with which it was drawn, among all that could have been."""
    draw: Draw | None = None
    """Draw from the judge's scores of its stream; None for a reply of a suite."""
    judge: Reading | None = None
    judge_model: str | None = None
    prompt_sha256: str | None = None
    judge_thinking: str | None = None
    judge_fingerprint: str | None = None
    key: dict[str, Any] = msgspec.field(default_factory=dict)
    """Meaning of a choice, e.g. {"names": ["man", "woman"]} in the order shown."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be labelled."""

    id: str
    """Stable: the same reply drawn again is the same task."""
    form: FormName
    shown: dict[str, Any]
    """Material that a rater sees: question, texts, statement. Empty for a live exchange, whose text stays."""
    origin: Origin


class LabellingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people about a reply of a suite."""

    shown: dict[str, Any]
    key: dict[str, Any] = msgspec.field(default_factory=dict)
    group: str | None = None
    reference: str | None = None
    judge: Reading | None = None
    """Reading of the reply by the run's judge, or the evaluating model; None if it gave nothing readable."""
