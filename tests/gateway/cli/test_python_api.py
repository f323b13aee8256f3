"""`import biasgate` as a data scientist uses it, against the simulated model."""

import inspect
import re
from pathlib import Path

import pytest

import biasgate
from benchmarks.errors import BenchmarkError
from biasgate.client import Audits, Client
from tests.support.commands import scored
from tests.support.gateway.control_plane import control_plane
from tests.support.simulated import running_simulator


def test_every_public_name_is_there() -> None:
    """The lazily imported names exist, and an unknown name is an AttributeError."""
    assert all(getattr(biasgate, name) is not None for name in biasgate.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        str(biasgate.nothing)


async def test_the_client_asks_what_the_description_has(tmp_path: Path) -> None:
    """Each path of `Client` and each filter that a method's docstring names is in the OpenAPI description."""
    async with control_plane(tmp_path) as plane:
        described = (await plane.http.get("/schema/openapi.json")).json()["paths"]
    operations = {re.sub("{.*}", "{}", path): routes for path, routes in described.items()}
    paths = {re.sub("{.*}", "{}", path) for path in re.findall(r'"(/[a-z].*?)"', inspect.getsource(biasgate.client))}
    for path, method in (("/live/estimates", Client.estimates), ("/audits", Audits.list)):
        filters = (method.__doc__ or "").split("Filters: ")[1].rstrip(".").split(", ")
        assert {*filters} <= {parameter["name"] for parameter in operations[path]["get"]["parameters"]}
    assert (len(paths), paths <= operations.keys()) == (9, True)


async def test_an_audit_gives_frames_figures_a_comparison_and_a_gate(tmp_path: Path) -> None:
    """The numbers are those of result.json, the replies those of the directory."""
    async with running_simulator(seed=2) as url:
        [first] = await biasgate.audit_async("stereoset", "simulated", url, data="embedded", out=tmp_path / "a")
        [second] = await biasgate.audit_async(
            "stereoset", "simulated", url, data="embedded", mitigation="abstract", axes=["gender", "race"], out="b"
        )
    estimates, replies = first.estimates(), first.replies()
    place, expected = next(
        (place, each)
        for place, each in enumerate(first.result.estimates)
        if each.metric == "ss" and first.result.fault_of(each) is None
    )
    total = estimates.iloc[place]

    assert (total.value, total.lower, total.n) == (expected.value, expected.lower, expected.n)
    assert len(first.items()) == first.result.counts["items"]
    assert len(replies) == sum(first.result.counts[s] for s in ("ok", "refusal", "unrelated", "malformed", "error"))
    assert replies.prompt.str.len().min() > 10
    assert first.figures == []  # StereoSet draws none
    assert second.result.axes == ("gender", "race")
    assert biasgate.load_run(tmp_path / "a").result == first.result
    differences = biasgate.to_frame(biasgate.compare(first, second).differences, "rows")
    assert {row["metric"] for row in differences} >= {"ss", "lms"}
    passed, failed = biasgate.gate(first, "stereoset.ss.value > 0", "stereoset.ss.upper < 1")
    assert (passed.passed, failed.passed) == (True, False)


def test_recorded_replies_are_scored_in_memory(tmp_path: Path) -> None:
    """The same numbers as of `audit score`; without a directory there are no replies."""
    path = scored(tmp_path / "run")
    lines = biasgate.load_run(path).replies("rows")
    run = biasgate.score(
        "stereoset", [{name: row[name] for name in ("item_id", "text")} for row in lines], data="embedded"
    )

    assert run.result.estimates == biasgate.load_run(path).result.estimates
    assert {info.name for info in biasgate.suites()} >= {"bbq", "stereoset"}
    assert "ss" in biasgate.metrics("stereoset")
    with pytest.raises(BenchmarkError, match="has no directory"):
        run.replies()
    with pytest.raises(BenchmarkError, match=r"a reply cannot be read: Expected .*, got `int`"):
        biasgate.score("stereoset", [{"item_id": "1", "text": 7}])


def test_a_number_that_is_not_assessable_has_no_value(tmp_path: Path) -> None:
    """A model whose replies cannot be read has reasons in its table, not numbers."""
    good = biasgate.load_run(scored(tmp_path / "run"))
    lines = [{"item_id": row["item_id"], "text": "lorem ipsum"} for row in good.replies("rows")]
    run = biasgate.score("stereoset", lines, data="embedded")

    assert run.result.fault
    assert all(row["value"] is None and row["reason"] for row in run.estimates("rows") if row["metric"] == "ss")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out_dir": "x"}, "unrecognized arguments: --out-dir"),
        ({"data": "canonic"}, "argument --data: invalid choice: 'canonic'"),
        ({"limit": "many"}, "argument --limit: invalid int value: 'many'"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, str], message: str) -> None:
    """The message of the command line, as an exception."""
    with pytest.raises(BenchmarkError, match=message):
        biasgate.audit("stereoset", "m", "http://127.0.0.1:1", **options)
