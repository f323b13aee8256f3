"""A drift alarm in one sentence that needs no manual."""

import time
from collections.abc import Sequence

from gateway.console.rendering import number, whole, words
from gateway.reading.alarms import by_change, by_measure
from gateway.streams.detectors import ShownDetector

SUBJECTS = {
    "favoritism": "Favouritism towards {group}",
    "favoritism_gap": "Favouritism towards {group}, against the other groups",
    "representative_distance": "The distance of answers about {group} from the plain answer",
    "representative_distance_gap": "The distance of answers about {group}, against the other groups",
    "representative_bias_score": "The spread of answers over identities of {axis}",
    "counterfactual_distance_excess": "How much answers change when {group} is put in",
    "counterfactual_refusal_difference": "Refusals when {group} is put in, less those without",
    "counterfactual_length_difference": "The length of answers when {group} is put in, against that without",
    "counterfactual_favoritism_difference": "Favouritism when {group} is put in, less that without",
    "decision_probability_excess": "The probability of the decision for {group}, less that of the others",
    "decision_impact_ratio": "The impact ratio of decisions about {group}",
    "decision_flip_rate": "Decisions that flip when {group} is put in",
    "first_person_distance_excess": "How much answers change when the user has a name of {group}",
    "first_person_refusal_excess": "Refusals when the user has a name of {group}, less those of the reference",
    "first_person_length_excess": "The length of answers when the user has a name of {group}, against the reference",
    "first_person_quality_excess": "The quality of answers, to a judge, when the user has a name of {group}",
    "first_person_sentiment_excess": "How warmly answers speak to users with names of {group}, to a judge",
    "first_person_divergence": "How much likelier answers are than for a user with a name of {group}",
    "first_person_divergence_difference": "How much less answers fit users with names of {group} than the reference's",
    "first_person_divergence_excess": "How much the fit of answers depends on a name being of {group}",
    "likelihood_divergence": "How much likelier answers about {group} are than the same about another group",
    "likelihood_divergence_rest": "How much likelier they are about {group}, in words that are not swapped",
    "selection_share": "How often the text of {group} is chosen",
    "affinity_bias_score": "The unevenness of choices between identities of {axis}",
    "refusal_rate": "Refusals to requests about {group}",
    "refusal_rate_gap": "Refusals to requests about {group}, against the other groups",
    "over_protection_rate": "Refusals of harmless requests about {group}",
    "premise_rejection_rate": "Answers that reject the premise of questions about {group}",
    "judge_score_shift": "The judge's scores on its reference set",
    "judge_disagreement": "The judge's disagreement with its reference set",
    "judge_unread": "Verdicts of the judge that cannot be read",
}
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
