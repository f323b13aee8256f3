"""What is handed to Prometheus, Alertmanager and Grafana is valid, and asks only for what biasgate exports."""

import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from gateway.config.loading import load
from tests.support.dashboards import GRAFANA, NAMES, build, dashboard, filled, panels
from tests.support.prometheus_tools import amtool, promtool
from tools.reference.metrics import read_families

ROOT = Path(__file__).parent.parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
VIEWER_KEY = "/run/keys/viewer_key"
"""Where a service of the compose file puts it."""
SAMPLE_SUFFIXES = ("_total", "_bucket", "_count", "_sum")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def families_in(expression: str) -> set[str]:
    """Metric families that an expression reads; recorded series count as theirs."""
    names = set(re.findall(r"(?<![\w:])biasgate_[a-z0-9_]+", expression))
    return {family(name) for name in names}


def family(name: str) -> str:
    for suffix in SAMPLE_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@functools.cache
def exported_families() -> set[str]:
    """Families of both roles, as their collectors yield them."""
    return {family(exported.name) for families in read_families().values() for exported in families}


def test_prometheus_config(tmp_path: Path) -> None:
    """Prometheus accepts the scrape configuration, the rules it names and the key it reads."""
    shutil.copy(PROMETHEUS / "rules.yml", tmp_path)
    key = tmp_path / "viewer_key"
    key.write_text("secret")
    text = (PROMETHEUS / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace(VIEWER_KEY, str(key)))
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_prometheus_shows_its_key() -> None:
    """What is behind server.protect_metrics is scraped with a key; vLLM never sees it, and no repository holds it."""
    config = load(ROOT / "deploy" / "biasgate.toml", environ={})
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    files = {job["job_name"]: job.get("authorization", {}).get("credentials_file") for job in jobs}
    assert config.server.protect_metrics
    assert files == {"biasgate-gateway": VIEWER_KEY, "biasgate-auditor": VIEWER_KEY, "vllm": None}


def test_prometheus_rules_behave(tmp_path: Path) -> None:
    """Each alert fires on the series that should raise it and is silent beside it."""
    whole = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())
    whole["rule_files"] = [str(PROMETHEUS / "rules.yml")]
    cases_by_interval: dict[str, list[object]] = {}
    for case in whole["tests"]:
        cases_by_interval.setdefault(case["interval"], []).append(case)
    # Rules are evaluated as often as there are samples: every 15 s over eight hours would take promtool 20 s.
    for interval, cases in cases_by_interval.items():
        part = tmp_path / f"{interval}.yml"
        part.write_text(yaml.safe_dump(whole | {"evaluation_interval": interval, "tests": cases}))
        promtool("test", "rules", str(part))


def test_every_alert_is_tested() -> None:
    """No alert goes without a case in rules_test.yml."""
    text = (PROMETHEUS / "rules_test.yml").read_text()
    untested = [rule["alert"] for rule in rules() if "alert" in rule and f"alertname: {rule['alert']}" not in text]
    assert untested == []


def test_every_alert_has_a_runbook() -> None:
    """Whoever is woken up finds a page that says what to do."""
    begin = "{{ $externalLabels.runbooks }}/"
    links = {rule["annotations"]["runbook_url"] for rule in rules() if "alert" in rule}
    assert links == {f"{begin}{page.name}" for page in RUNBOOKS}


def test_the_base_of_links_is_set_once() -> None:
    """Prometheus gives its alerts' links the base that its file names, and sends no label of that name on."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert {"action": "labeldrop", "regex": "runbooks|console"} in config["alerting"]["alert_relabel_configs"]
    assert config["global"]["external_labels"] == build().DEFAULTS


@pytest.mark.parametrize("file", ["alertmanager.yml", "slack-and-pagerduty.yml"])
@pytest.mark.parametrize(("severity", "receiver"), [("page", "on-call"), ("ticket", "tickets")])
def test_alertmanager_routes_by_severity(file: str, severity: str, receiver: str) -> None:
    """Alertmanager accepts its files, and the severity decides who is told."""
    path = str(ROOT / "deploy" / "alertmanager" / file)
    amtool("check-config", path)
    assert amtool("config", "routes", "test", "--config.file", path, f"severity={severity}").strip() == receiver
    assert severity in {rule["labels"]["severity"] for rule in rules() if "alert" in rule}


def test_rules_read_exported_metrics() -> None:
    """Alerts and recordings read only families that biasgate exports."""
    assert set().union(*(families_in(rule["expr"]) for rule in rules())) <= exported_families()


def test_dashboards_are_built_from_their_sources() -> None:
    """Each JSON file is what build.py makes of the TOML file beside it: nobody edited the output."""
    assert {path.stem for path in GRAFANA.glob("*.json")} == set(NAMES) == set(build().NAMES)
    assert {name: build().render(name) for name in NAMES} == {
        name: (GRAFANA / f"{name}.json").read_text(encoding="utf-8") for name in NAMES
    }


def test_dashboards_read_exported_metrics() -> None:
    """Every panel and every annotation asks for families that biasgate exports."""
    marks = [mark["expr"] for name in NAMES for mark in dashboard(name)["annotations"]["list"]]
    asked = [target["expr"] for _, panel in panels() for target in panel["targets"]]
    assert set().union(*map(families_in, asked + marks)) <= exported_families()


def test_dashboards_show_every_exported_metric() -> None:
    """Nothing is exported that no panel shows."""
    asked = set().union(*(families_in(target["expr"]) for _, panel in panels() for target in panel["targets"]))
    assert exported_families() <= asked


def test_dashboard_expressions_parse(tmp_path: Path) -> None:
    """Prometheus parses every expression once Grafana has filled in its variables."""
    expressions = [filled(target["expr"]) for _, panel in panels() for target in panel["targets"]]
    expressions += [filled(mark["expr"]) for name in NAMES for mark in dashboard(name)["annotations"]["list"]]
    group = {"name": "panels", "rules": [{"record": f"panel:{n}", "expr": text} for n, text in enumerate(expressions)]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}))
    assert f"{len(expressions)} rules found" in promtool("check", "rules", str(tmp_path / "rules.yml"))


MARKS = {
    "Drift alarms": {"2m": None, "3m": '{auditor="judge", metric="favoritism", axis="gender", group="man", model="m"}'},
    "Model changes": {
        "2m15s": '{upstream="u", model="m", fingerprint="two"}',
        "4m": '{upstream="u", model="m", fingerprint="two"}',
        "4m15s": None,
    },
    "Upstream down": {"2m": None, "3m": '{upstream="u"}'},
    "Finished runs": {"2m": None, "2m45s": '{suite="bbq", model="m"}', "4m": None},
}
"""What is marked and when, if all of it changes two minutes and a quarter after the start."""


def test_annotations_mark_alarms_and_changes(tmp_path: Path) -> None:
    """Prometheus gives each annotation its mark once its alarm, model or upstream has changed, and none before."""
    was, became = ("1x8 stale", "_x9 1x20")
    series = {
        'biasgate_drift_alarm{auditor="judge", metric="favoritism", axis="gender", group="man", model="m"}': "0x8 1x20",
        'biasgate_drift_alarm{auditor="judge", metric="favoritism", axis="gender", group="woman", model="m"}': "0x30",
        'biasgate_model_info{upstream="u", model="m", fingerprint="one"}': was,
        'biasgate_model_info{upstream="u", model="m", fingerprint="two"}': became,
        'biasgate_model_info{upstream="u", model="other", fingerprint="one"}': "1x30",
        'biasgate_upstream_up{upstream="u"}': "1x8 0x20",
        'biasgate_upstream_up{upstream="v"}': "1x30",
        'biasgate_audit_last_success_timestamp_seconds{suite="bbq", model="m"}': "1000x8 1135x20",
        'biasgate_audit_last_success_timestamp_seconds{suite="eec", model="m"}': "1000x30",
    }
    marks = {mark["name"]: mark["expr"] for name in NAMES for mark in dashboard(name)["annotations"]["list"]}
    value = {"Upstream down": 0}
    expected = [
        {
            "expr": filled(marks[name]),
            "eval_time": at,
            "exp_samples": [] if labels is None else [{"labels": labels, "value": value.get(name, 1)}],
        }
        for name, moments in MARKS.items()
        for at, labels in moments.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "15s", "input_series": given, "promql_expr_test": expected}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))

    assert set(marks) == set(MARKS)
    promtool("test", "rules", str(tmp_path / "test.yml"))


def test_dashboards_use_only_their_variables() -> None:
    """No expression names a drop-down that its dashboard lacks: Grafana would send the name as it stands."""
    for name in NAMES:
        known = {one["name"] for one in dashboard(name)["templating"]["list"]} | {"__rate_interval", "__field"}
        text = json.dumps([dashboard(name)["panels"], dashboard(name)["annotations"]])
        assert set(re.findall(r"\$\{?(\w+)", text)) <= known, name


def test_a_table_is_one_table() -> None:
    """Rows of the same labels are merged, and each query's values have a heading: Grafana shows one query otherwise."""
    tables = [panel for _, panel in panels() if panel["type"] == "table"]
    assert tables
    for panel in tables:
        merge, organise = panel["transformations"]
        assert (merge["id"], organise["id"]) == ("merge", "organize")
        targets = panel["targets"]
        values = ["Value"] if len(targets) == 1 else [f"Value #{target['refId']}" for target in targets]
        renamed = organise["options"]["renameByName"]
        assert renamed == {value: target["legendFormat"] for value, target in zip(values, targets, strict=True)}
        assert len(set(renamed.values())) == len(values)
        assert all(target["instant"] for target in targets)


@pytest.mark.parametrize("name", NAMES)
def test_dashboard_panels_do_not_overlap(name: str) -> None:
    """Each grid cell holds one panel at most, of the dashboard and of each collapsed row."""
    whole = dashboard(name)["panels"]
    for listed in (whole, *(row["panels"] for row in whole if row.get("collapsed"))):
        cells = [
            (x, y)
            for box in (panel["gridPos"] for panel in listed)
            for x in range(box["x"], box["x"] + box["w"])
            for y in range(box["y"], box["y"] + box["h"])
        ]
        assert len(cells) == len(set(cells))


def test_dashboards_fold_what_is_off_and_keep_units_apart() -> None:
    """Rows of what is off at first are folded, all panels share a crosshair, and no axis has several metrics' units."""
    wholes = [dashboard(name) for name in NAMES]
    rows = [panel for whole in wholes for panel in whole["panels"] if panel["type"] == "row"]
    assert [row["title"] for row in rows if "off until" in row["title"] and not row["collapsed"]] == []
    assert [whole["graphTooltip"] for whole in wholes] == [1, 1, 1]
    filters = [{one["name"] for one in whole["templating"]["list"]} for whole in wholes]
    assert ["group" in names for names in filters] == [False, True, True]
    own_units = [panel for _, panel in panels() if "own unit" in panel["title"] and panel["type"] != "table"]
    assert len(own_units) == 3
    assert all(f"${panel['repeat']}" in panel["targets"][0]["expr"] for panel in own_units)
