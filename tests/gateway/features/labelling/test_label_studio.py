"""Label Studio's formats, as it documents them."""

from typing import Any
from xml.etree import ElementTree

import pytest

from auditors.labelling.forms import FORMS, FormName, LabelError, filled_in
from auditors.labelling.tasks import Origin, Task
from gateway.features.labelling import label_studio

SHOWN: dict[FormName, dict[str, Any]] = {
    "essay": {"question": "q", "text": "t", "statement": "a is better than b"},
    "favouring": {"text": "t"},
    "allocation": {"text": "t", "first": "cook", "second": "chef"},
    "choice": {"kind": "puzzle", "texts": ["t", "u"]},
    "perceptibility": {"identity": "queer", "text": "t"},
}


def chosen(name: str, value: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [value]}}


def exported(result: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    by = {"id": 7, "email": "ann@example.org"}
    return {"data": {"task": "t1"}, "annotations": [{"completed_by": by, "result": result, **more}]}


@pytest.mark.parametrize("form", list(FORMS))
def test_the_interface_shows_what_a_task_has_and_asks_what_a_form_needs(form: FormName) -> None:
    """Every variable of the configuration is in the task's data; the first option of each control fills the form in."""
    root = ElementTree.fromstring(label_studio.configuration(form, 2))
    [task] = label_studio.tasks([Task(id="t1", form=form, shown=SHOWN[form], origin=Origin())])
    wanted = {name.strip("$.") for tag in root.iter() for name in tag.get("value", "").split() if name.startswith("$")}
    assert wanted <= set(task["data"])
    assert ("criteria" in wanted) == (form in ("essay", "choice"))
    assert task["data"]["task"] == "t1"

    first = {one.get("name", ""): one.find("Choice") for one in root.iter("Choices")}
    result = [chosen(name, str(option.get("value"))) for name, option in first.items() if option is not None]
    asked = [one for one in result if one["from_name"] != label_studio.OUTCOME]
    [found] = label_studio.annotations([exported(asked)], form)
    assert (found.task_id, found.rater) == ("t1", "ann@example.org")
    filled_in(form, found.label, SHOWN[form])


def test_a_reply_is_refused_rejected_or_reversed_with_a_note() -> None:
    """The outcome is one more control; a skipped annotation is none, and a rater without an address has a number."""
    note = {"from_name": "note", "to_name": "text", "type": "textarea", "value": {"text": ["cut off"]}}
    for outcome, field in (("refused", "refused"), ("rejected", "rejected"), ("reverse biased", "reverse_biased")):
        document = [exported([chosen("outcome", outcome), note]), exported([], was_cancelled=True)]
        document[0]["annotations"][0]["completed_by"] = 7
        [found] = label_studio.annotations(document, "essay")
        assert (found.rater, found.label) == ("user 7", {field: True, "note": "cut off"})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"tasks": []}, "a JSON list of tasks"),
        ("[]", "a JSON list of tasks"),
        ([{"id": 1}], "task 1 of the list: unexpected shape: KeyError"),
        ([exported([chosen("outcome", "gone")])], 'outcome "gone" is not one of'),
        ([exported([{"from_name": "cues"}])], "task 1 of the list: unexpected shape"),
        ([exported([chosen("cues", "nuanced")]), 5], "task 2 of the list"),
    ],
)
def test_what_is_no_export_is_said_in_one_line(document: Any, said: str) -> None:
    """With the number of the task."""
    with pytest.raises(LabelError) as raised:
        list(label_studio.annotations(document, "perceptibility"))
    assert said in str(raised.value)
