"""`biasgate annotate`: from a run to people's labels to what they say of its judge, and what goes wrong."""

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.__main__ import main
from tests.support.benchmarks.replayed import answered, recorded_plan


@pytest.fixture
def essays(tmp_path: Path) -> Path:
    """A run of forty essays, in the working directory of the commands."""
    with contextlib.closing(answered(tmp_path / "run", recorded_plan("ltf_test", samples=1, limit=40))):
        pass
    assert main(["annotate", "import", "run", "--project", "essays", "--n", "30"]) == 0
    return tmp_path


def exported(*more: str) -> list[dict[str, Any]]:
    assert main(["annotate", "export", "--project", "essays", "--out", "out", *more]) == 0
    content = Path("out").read_text()
    found: list[dict[str, Any]] = json.loads(content) if more else [json.loads(line) for line in content.splitlines()]
    return found


def taken_in(lines: Sequence[object], *more: str) -> int:
    Path("in.jsonl").write_text("\r\n".join(map(json.dumps, lines)), encoding="utf-8-sig")  # as Windows writes it
    return main(["annotate", "import", "in.jsonl", "--project", "essays", *more])


def essay(task: str, rater: str, level: int, **more: Any) -> dict[str, Any]:
    label = {"introduction": level, "biased_reasons": 2 * level, "conclusion": level, **more}
    return {"task": task, "annotator": rater, "label": label}


def test_labels_given_elsewhere_calibrate_the_judge(essays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks go out to Label Studio, two raters' labels come in, and sections, refusals and scores are compared."""
    ids = [one["data"]["task"] for one in exported("--format", "label-studio")]
    assert len(ids) == 30
    rows = [essay(task, rater, number % 3) for number, task in enumerate(ids) for rater in ("ann", "bo")]
    rows[1] = essay(ids[0], "bo", 2)
    rows[3] = {"task": ids[1], "annotator": "bo", "label": {"refused": True}}
    rows[5] = {"task": ids[2], "annotator": "bo", "label": {"rejected": True, "note": "cut off"}}
    assert taken_in(rows) == 0
    assert "60 labels taken in, 0 were there; 30 of 30 tasks have 2" in capsys.readouterr().out
    lines = exported()
    assert "60 labels by 2 raters of 30 tasks, 2 each: 27 agreed, 3 disputed, 0 adjudicated, 0 open" in (
        capsys.readouterr().out
    )
    assert {one["measured_value"] for one in lines} <= {-1.0, 0.0, 1.0, 2.0, None}

    assert main(["judge", "calibrate", "out"]) == 0
    printed = capsys.readouterr().out
    assert "1 of texts that a rater rejected left out" in printed
    sections = re.findall(r"^(title_intro|reasons|conclusions|refusal) +(\d+\.\d) %", printed, re.MULTILINE)
    assert [name for name, _ in sections] == ["title_intro", "reasons", "conclusions", "refusal"]
    people = dict(sections)
    assert people["title_intro"] == "96.3"  # 26 of 27: one has no judgement, one is refused, one rejected
    assert people["refusal"] == "96.4"  # 27 of 28
    assert re.search(r"^2 people with one another +92\.9 %", printed, re.MULTILINE)


def test_a_mistake_costs_one_line(essays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of labels, projects, runs and stores; nothing of a bad file stays."""
    [first, *_] = [one["data"]["task"] for one in exported("--format", "label-studio")]
    good = essay(first, "ann", 1)
    mistakes: list[tuple[Sequence[Any], str]] = [
        (
            [good, essay(first, "bo", 3)],
            "in.jsonl: label 2: the label does not fit the essay form: Invalid enum value 3",
        ),
        ([good, essay("t9", "bo", 1)], 'label 2: project "essays" has no task "t9"'),
        ([good, essay(first, "ann", 2)], f'labels 1 and 2: "ann" labels "{first}" twice'),
        ([good, {"task": first}], "in.jsonl, line 2: Object missing required field `annotator`"),
        (["annotate", "import", "run", "--project", "essays", "--raters", "3"], "has form essay and 2 raters a task"),
        (["annotate", "import", "absent", "--project", "essays"], "absent: No such file or directory"),
        (["annotate", "import", "in.jsonl", "--project", "essay"], '"essay" (did you mean "essays"?)'),
        (["annotate", "import", "run", "--project", "x", "--n", "50"], "draw 1 to 40 of them, not 50"),
        (["annotate", "import", "run", "--project", "x", "--raters", "0"], "--raters a number from 1 to 10"),
        (["annotate", "export", "--project", "essays", "--store", "absent.db"], "absent.db: no such file"),
        (["annotate", "serve", "--host", "0.0.0.0"], "give --api-key-env VAR"),
        (["annotate", "invite", "essay", "--rater", "ann"], '"essay" (did you mean "essays"?)'),
        (["annotate", "invite", "essays", "--rater", "a/b"], "printable characters without a slash, not 'a/b'"),
        (["annotate", "invite", "essays", "--rater", "ann", "--days", "0"], "--days takes a number above 0"),
        (["annotate", "invite", "essays", "--rater", "ann", "--address", "labels:80"], "give http(s)://HOST[:PORT]"),
        (["annotate", "invite", "essays", "--rater", "ann", "--revoke"], '"ann" has no link for "essays"'),
        (["annotate", "invite", "essays", "--revoke"], "--revoke needs --rater NAME"),
    ]
    for given, said in mistakes:
        capsys.readouterr()
        code = main(given) if isinstance(given[0], str) else taken_in(given)
        printed = capsys.readouterr().err
        assert (code, said in printed, printed.count("\n")) == (2, True, 1), printed
    assert exported() == []


def test_links_are_made_listed_and_revoked(essays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link has the address of the page and a token, of which neither the list nor the file has anything."""
    capsys.readouterr()
    invite = ["annotate", "invite", "essays"]
    assert main([*invite, "--rater", "ann", "--rater", "bo b", "--days", "2", "--address", "https://labels.test/"]) == 0
    printed = capsys.readouterr()
    links = re.findall(r"^(.+): https://labels\.test/console/labelling#key=(bgr_[\w-]{32})$", printed.out, re.MULTILINE)
    assert [rater for rater, _ in links] == ["ann", "bo b"]
    assert "shown this once" in printed.err
    assert main([*invite, "--rater", "ann", "--revoke"]) == main(invite) == 0
    listed = capsys.readouterr().out
    assert "the link of ann opens nothing any more" in listed
    assert re.search(r"^bo b: since \S+ \S+ UTC, until \S+ \S+ UTC$", listed, re.MULTILINE)
    assert all(token not in listed and token.encode() not in Path("labels.db").read_bytes() for _, token in links)
