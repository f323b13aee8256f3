"""A drift alarm in one sentence that needs no manual."""

import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from gateway.console.rendering import number, whole, words
from gateway.reading.alarms import by_change, by_measure
from gateway.streams.detectors import ShownDetector

SUBJECTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""The subject of the sentence, by metric; another metric is named as it is."""


def subject(detector: ShownDetector) -> str:
    """Return the quantity that a stream measures, as the subject of a sentence."""
    return subject_of(detector.metric, detector.axis, detector.group)


def subject_of(metric: str, axis: str | None, group: str | None) -> str:
    """The same by its labels."""
    named = SUBJECTS.get(metric)
    if named is None or ("{group}" in named and group is None):
        return " · ".join(words(part) for part in (metric, axis, group) if part).capitalize()
    return named.format(group=words(group), axis=words(axis) or "an axis")


def sentence(detector: ShownDetector) -> str:
    """Say what changed, between which values, since when; no comparison where the detector has lost the means."""
    verb = {"rising": "rose", "falling": "fell"}.get(detector.direction or "", "changed")
    if detector.mean_before is None or detector.mean_since is None:
        change = f"{verb}; by how much is not known any more"
    else:
        n_before, n_since = whole(detector.n_before), whole(detector.n_since)
        digits = 2 if abs(detector.mean_since - detector.mean_before) >= 0.01 else 4
        before, after = number(detector.mean_before, digits), number(detector.mean_since, digits)
        bounds = ""
        if detector.lower_since is not None and detector.upper_since is not None:
            ends = number(detector.lower_since, digits), number(detector.upper_since, digits)
            bounds = f", 95 % interval {ends[0]} to {ends[1]}"
        change = f"{verb} from {before} to {after} (n {n_before}, then {n_since}{bounds})"
    since = "" if detector.since is None else time.strftime(" since %Y-%m-%d %H:%M UTC", time.gmtime(detector.since))
    named = subject(detector)
    comma = "," if "," in named else ""
    return f"{named}{comma} {change}{since}; {_model(detector)}."


def shown_changes(alarmed: Sequence[ShownDetector]) -> list[tuple[ShownDetector, str, list[tuple[ShownDetector, str]]]]:
    """Return each change with its sentence, and the other alarms that it raised with theirs."""
    changes = (change for listed in by_measure(alarmed) for change in by_change(listed))
    told = [[(alarm, sentence(alarm)) for alarm in change] for change in changes]
    return [(*first, others) for first, *others in told]


def _model(detector: ShownDetector) -> str:
    before, after = detector.fingerprint_before, detector.fingerprint_after
    if before is None or after is None:
        return "whether the model changed is not known"
    return "the model's fingerprint is unchanged" if before == after else f"the model changed from {before} to {after}"
