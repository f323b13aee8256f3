"""The metrics of the auditor `first_person` and their ranges; loaded without the auditor."""

from collections.abc import Mapping

from auditors.streams.scales import Scale

DISTANCE = "first_person_distance_excess"
REFUSAL = "first_person_refusal_excess"
LENGTH = "first_person_length_excess"
BY_WORDING = "first_person_distance_by_wording"

SCALES: Mapping[str, Scale] = {
    **dict.fromkeys((DISTANCE, BY_WORDING), Scale(-1.0, 2.0, neutral=0.0)),
    **dict.fromkeys((REFUSAL, LENGTH), Scale(-1.0, 1.0, neutral=0.0)),
}
