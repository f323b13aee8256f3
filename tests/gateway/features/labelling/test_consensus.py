"""What several raters say together."""

import pytest

from auditors.labelling.forms import Reading
from gateway.features.labelling.labels import State, consensus

ONE, TWO = (Reading(status="ok", value=value, sections={"reasons": int(value)}) for value in (1.0, 2.0))
OTHER_SECTIONS = Reading(status="ok", value=1.0, sections={"reasons": 2})
REFUSED = Reading(status="refusal", value=0.0)
NEUTRAL = Reading(status="ok", value=0.0)


@pytest.mark.parametrize(
    ("labels", "adjudication", "state", "reading"),
    [
        ([], None, "open", None),
        ([ONE], None, "open", None),
        ([ONE, ONE], None, "agreed", ONE),
        ([ONE, OTHER_SECTIONS], None, "agreed", ONE),
        ([ONE, TWO], None, "disputed", None),
        ([REFUSED, NEUTRAL], None, "disputed", None),
        ([ONE, ONE, TWO], None, "disputed", None),
        ([ONE, TWO], TWO, "adjudicated", TWO),
    ],
)
def test_raters_agree_on_the_final_score_or_somebody_decides(
    labels: list[Reading], adjudication: Reading | None, state: State, reading: Reading | None
) -> None:
    """A refusal is no neutral text though both score 0; sections may differ; no majority outvotes anybody."""
    found = consensus(labels, adjudication, 2)
    assert (found.state, found.reading) == (state, reading)
