"""The section of a model card, as huggingface_hub reads it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for one call
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from auditors.types import Estimate
from benchmarks.run.result import Result
from benchmarks.run.score import score_recorded
from benchmarks.suites import registry
from benchmarks.suites.protocol import Reply, Suite
from benchmarks.suites.registry import SUITES
from gateway.__main__ import main
from gateway.features.formats.model_card import card
from tests.support.benchmarks.scripted import pick, plan
from tests.support.commands import scored

STRANGE = 'a: b|c<script>"#\x1b\x7f\ufffe\n- x \U0001f600'


@pytest.fixture(scope="module")
def suite() -> Suite:
    return registry.find("stereoset")


@pytest.fixture(scope="module")
def result() -> Result:
    """A model that always picks the stereotype; cells of six terms have no interval."""
    ready = plan()
    replies = [Reply(item_id=item.item_id, text=pick("stereotype")(item)) for item in ready.items]
    return score_recorded(ready, replies, where="script")[0]


def metadata(card: ModelCard) -> ModelCardData:
    assert isinstance(card.data, ModelCardData)
    return card.data


def metrics(page: str) -> list[EvalResult]:
    return metadata(ModelCard(page)).eval_results or []


def test_the_hub_reads_every_number(result: Result, suite: Suite) -> None:
    """Metadata load as EvalResults with the values, intervals and counts of the result, and none besides."""
    found = metrics(card([(result, suite)]))
    totals = [one for one in result.estimates if (one.group, one.reference, one.subset) == (None, None, None)]

    assert [(one.metric_type, one.metric_value) for one in found] == [(one.metric, one.value) for one in totals]
    assert metadata(ModelCard(card([(result, suite)]))).model_name == "scripted"
    first, same = found[0], totals[0]
    assert first.metric_args == {
        "lower": same.lower,
        "upper": same.upper,
        "confidence_level": 0.95,
        "n": same.n,
        "n_excluded": same.n_excluded,
    }
    assert (first.dataset_type, first.dataset_revision) == ("stereoset", result.dataset.sha256)
    assert first.task_type == "text-generation"


def test_the_headline_number_is_on_the_card(result: Result) -> None:
    """Whatever parts or groups a suite's headline number is of, it is among those that stand for the result."""
    for other in SUITES.values():
        metric, axis, group, reference, subset = other.headline
        keys: dict[str, Any] = {"axis": axis, "group": group, "reference": reference, "subset": subset}
        headline = Estimate(metric=metric, **keys, value=1.0, n=1)
        rate = Estimate(metric="refusal_rate", value=2.0, n=1)
        changed = msgspec.structs.replace(result, suite=other.name, estimates=[rate, headline])
        found = {(one.metric_type, one.metric_value) for one in metrics(card([(changed, other)]))}
        assert found == {("refusal_rate", 2.0), (metric, 1.0)}


def test_undefined_is_a_row_and_no_metric(result: Result, suite: Suite) -> None:
    """A number that cannot be formed has its reason in the table, and is no metric, least of all 0."""
    first = next(one for one in result.estimates if one.axis and one.subset is None)
    rest = [one for one in result.estimates if one is not first]
    gone = msgspec.structs.replace(first, value=None, lower=None, upper=None, n=0, reason="no reply | at all")
    page = card([(msgspec.structs.replace(result, estimates=[gone, *rest]), suite)])

    assert len(metrics(page)) == len(metrics(card([(result, suite)]))) - 1
    assert f"| {first.metric} | {first.axis} | undefined |  | 0 | {first.n_excluded} | no reply \\| at all |" in page


@pytest.mark.parametrize("name", [STRANGE, "yes", "1.0", "null", "- [a]", "org/model", "%x", "'"])
def test_any_name_is_a_name(result: Result, suite: Suite, name: str) -> None:
    """Whatever a model is called, the metadata are valid YAML and the name a string."""
    page = card([(msgspec.structs.replace(result, model=name), suite)])
    said = yaml.safe_load(page.split("---\n")[1])["model-index"][0]["name"]
    assert isinstance(said, str)
    assert said == re.sub("[\x1b\x7f\ufffe]", "\ufffd", name)
    assert len(metrics(page)) > 10


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written to a file or printed, the same page; a directory without a run is one line."""
    path, out = str(scored(tmp_path / "run")), tmp_path / "section.md"
    assert main(["audit", "export", path, "--to", "model-card", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["audit", "export", path, "--to", "model-card"]) == 0
    assert capsys.readouterr().out == out.read_text(encoding="utf-8")
    assert main(["audit", "export", str(tmp_path / "none"), "--to", "model-card"]) == 2
    assert "no run is there" in capsys.readouterr().err
    assert main(["audit", "export", path, "--to", "model-card", "--out", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
