"""Reading a judge's verdict: whole, in part, or not at all."""

from typing import Any

import msgspec
import pytest

from auditors.judge import SYSTEM_PROMPT
from auditors.judge_verdict import MOST_FINDINGS, REPLY_SCHEMA, SCHEMA_NAME, Verdict, VerdictError, parse_verdict
from auditors.text.identity import AXES, GROUPS
from auditors.types import CUT_OFF, FULL, NO_GROUP, NO_SCORE, OTHER_AXIS, TWO_SCORES

MAN, WOMAN, OLD = ("gender", "man"), ("gender", "woman"), ("age", "old")


def finding(axis: str, group: str, score: Any, reference: Any = None) -> dict[str, Any]:
    return {"axis": axis, "group": group, "reference": reference, "score": score}


def verdict(*findings: Any, refused: Any = False) -> str:
    return msgspec.json.encode({"refused": refused, "findings": findings}).decode()


def read(text: str) -> tuple[Verdict, str]:
    """The verdict, whole or in part, and what the error says."""
    try:
        return parse_verdict(text), ""
    except VerdictError as exc:
        return msgspec.convert(exc.partial, Verdict), str(exc)


@pytest.mark.parametrize(
    ("written", "score"),
    [
        (finding("gender", "man", 2, "woman"), 2),
        (finding("gender", "man", "-1"), -1),
        (finding("gender", "man", "+1"), 1),
        (finding("gender", "man", 1.0), 1),
        (finding("Gender", "Men", 1), 1),
        (finding("gender", "the men", 1), 1),
        (finding("gender", "man", 1, "man"), 1),
        (finding("gender", "man", 1, "white"), 1),
        ({"axis": "gender", "group": "man", "score": 1, "why": "praised"}, 1),
    ],
    ids=lambda value: str(value),
)
def test_a_finding_is_read(written: dict[str, Any], score: int) -> None:
    """Numbers as text, terms in place of names, further fields, and references that are no other group."""
    found = parse_verdict(verdict(written))

    assert (found.score(MAN), found.score(WOMAN), found.unread) == (score, 0.0, ())
    assert found.findings[0].reference == ("woman" if written.get("reference") == "woman" else None)


@pytest.mark.parametrize("refused", [True, "true", "Yes", 1])
def test_a_refusal_is_read(refused: Any) -> None:
    """Also as a word or number, and without findings or with null."""
    assert parse_verdict(msgspec.json.encode({"refused": refused, "findings": None}).decode()).refused
    assert parse_verdict(verdict(refused=refused)).refused
    assert parse_verdict(msgspec.json.encode({"refused": refused}).decode()).refused


@pytest.mark.parametrize(
    ("findings", "reason", "unknown", "known"),
    [
        ([finding("age", "woman", 1)], OTHER_AXIS, WOMAN, MAN),
        ([finding("gender", "men and women", 1)], OTHER_AXIS, WOMAN, OLD),
        ([finding("gender", "woman", 3)], NO_SCORE, WOMAN, MAN),
        ([finding("gender", "woman", 0.5)], NO_SCORE, WOMAN, MAN),
        ([finding("gender", "woman", "high")], NO_SCORE, WOMAN, MAN),
        ([finding("gender", "woman", True)], NO_SCORE, WOMAN, MAN),
        ([{"axis": "gender", "group": "woman"}], NO_SCORE, WOMAN, MAN),
        ([finding("gender", "woman", 1), finding("gender", "woman", 2)], TWO_SCORES, WOMAN, MAN),
    ],
)
def test_a_part_that_cannot_be_read(findings: list[Any], reason: str, unknown: Any, known: Any) -> None:
    """The group that it may be about has no score, and the rest of the verdict stands."""
    found, error = read(verdict(*findings, finding("race", "white", -1)))

    assert (error, found.why_unread(unknown), found.score(unknown)) == (reason, reason, None)
    assert (found.score(known), found.score(("race", "white"))) == (0.0, -1.0)


@pytest.mark.parametrize("written", [finding("zodiac", "leo", 1), finding("gender", "engineers", 1), "women", None])
def test_a_group_of_no_axis_is_left_out(written: Any) -> None:
    """It takes nothing from the scores of the groups that there are, and is not asked about again."""
    found = parse_verdict(verdict(written))

    assert ([part.reason for part in found.unread], found.score(MAN)) == ([NO_GROUP], 0.0)


@pytest.mark.parametrize("missing", range(1, 60))
def test_a_verdict_cut_off(missing: int) -> None:
    """Its findings up to the cut stand, and silence is no score; only the last brace may lack without harm."""
    whole = verdict(finding("gender", "man", 2), finding("gender", "woman", -1))
    found, error = read(whole[:-missing])

    assert (found.score(MAN), found.score(OLD)) == (2.0, 0.0 if missing == 1 else None)
    assert found.score(WOMAN) in ((-1.0,) if missing < 4 else (None,))
    assert error == ("" if missing == 1 else CUT_OFF)


def test_a_full_verdict_says_nothing_of_others() -> None:
    """The groups beyond the most findings have no score; they need not be asked about again."""
    groups = [group.name for group in AXES["religion"]]
    found = parse_verdict(verdict(*(finding("religion", group, 1) for group in groups[:MOST_FINDINGS])))

    assert (found.score(("religion", groups[0])), found.score(("religion", groups[-1]))) == (1.0, None)
    assert found.why_unread(MAN) == FULL


@pytest.mark.parametrize(
    "reply",
    [
        *[None, "", "I think it is fine.", "{}", "[]", "null", '{"refused": false}', "I can't judge this."],
        *['{"refused": "perhaps", "findings": []}', '{"refused": false, "findings": 3}'],
        verdict(finding("gender", "man", 1)) + verdict(finding("gender", "man", 2)),
        SYSTEM_PROMPT.splitlines()[-1],
    ],
)
def test_what_is_no_verdict(reply: str | None) -> None:
    """No object, other shapes, two verdicts that differ, a copy of the template."""
    with pytest.raises(VerdictError) as raised:
        parse_verdict(reply)
    assert raised.value.partial is None


def test_the_schema_allows_what_is_read() -> None:
    """Each axis has its own groups, every finding of the schema is read, and the longest verdict is short."""
    findings = REPLY_SCHEMA["properties"]["findings"]
    allowed = []
    for form in findings["items"]["anyOf"]:
        properties = form["properties"]
        [axis] = properties["axis"]["enum"]
        references = [*properties["reference"]["anyOf"][0]["enum"], None]
        allowed += [finding(axis, group, 1, references[0]) for group in properties["group"]["enum"]]
    longest = sorted(allowed, key=lambda one: -len(str(one)))[: findings["maxItems"]]

    assert REPLY_SCHEMA["title"] == SCHEMA_NAME
    assert {(one["axis"], one["group"]) for one in allowed} == GROUPS
    assert not [one for one in allowed if parse_verdict(verdict(one)).unread]
    assert len(verdict(*longest)) < 3 * 256  # three characters a token, at least
