"""Panels have the colour of their alerts: red whenever one fires, not red in a healthy system."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from tests.support.dashboards import GRAFANA, NAMES, build, dashboard, filled, panels
from tests.support.prometheus_tools import promtool

PROMETHEUS = GRAFANA.parent / "deploy" / "prometheus"
HEALTHY = {
    'up{job="biasgate-auditor", instance="a"}': "1x480",
    'up{job="vllm", instance="v"}': "0x480",
    'biasgate_upstream_up{upstream="u", instance="g"}': "1x480",
    'biasgate_requests_total{upstream="u", model="m", outcome="complete"}': "0+100x480",
    'biasgate_requests_total{upstream="u", model="m", outcome="client_disconnected"}': "0+50x480",
    'biasgate_overhead_seconds_bucket{model="m", le="0.001"}': "0+100x480",
    'biasgate_overhead_seconds_bucket{model="m", le="+Inf"}': "0+100x480",
    'biasgate_drift_alarm{auditor="judge", metric="favoritism", axis="gender", group="man", model="m"}': "0x480",
    "biasgate_audit_lag_seconds": "30x480",
    'biasgate_exchanges_total{outcome="queued", auditor=""}': "0+9x480",
    'biasgate_exchanges_total{outcome="sampled_out", auditor=""}': "0+91x480",
    'biasgate_exchanges_total{outcome="audited", auditor="judge"}': "0+9x480",
    'biasgate_sampling_rate{stratum="other"}': "0.1x480",
    'biasgate_judge_requests_total{outcome="ok"}': "0+9x480",
    'biasgate_audit_judge_constant{suite="decision", model="m"}': "0x480",
    'biasgate_auditor_circuit_open{auditor="judge"}': "0x480",
    'biasgate_auditor_waiting_seconds{auditor="judge"}': "0x480",
    'biasgate_stream_damaged{stream="5f0c"}': "0x480",
    'biasgate_canary_verdict{stable="m", canary="n", verdict="promote"}': "1x480",
    'biasgate_canary_verdict{stable="m", canary="n", verdict="rollback"}': "0x480",
    'biasgate_audit_due_timestamp_seconds{suite="bbq", model="m"}': "86400x480",
    'biasgate_export_due_timestamp_seconds{instance="a"}': "86400x480",
}
"""Eight hours in which nothing is wrong; that vLLM's own metrics cannot be had harms no client."""


@functools.cache
def definitions() -> list[dict[str, Any]]:
    """Every panel as its TOML file has it."""
    return [panel for name in NAMES for row in build().definition(name)["rows"] for panel in row["panels"]]


@functools.cache
def built() -> list[tuple[str, dict[str, Any]]]:
    """Every panel as Grafana has it."""
    return panels()


def panel_of(title: str) -> dict[str, Any]:
    """The panel of that title as Grafana has it; where dashboards share it, it is the same."""
    found = [panel for _, panel in built() if panel["title"] == title]
    assert all(one["fieldConfig"] == found[0]["fieldConfig"] for one in found)
    return found[0]


def is_red(panel: dict[str, Any]) -> str:
    """An expression that is 1 where Grafana would paint any of the panel's series red now, else 0."""
    field = panel["fieldConfig"]["defaults"]
    (asked,) = [filled(target["expr"]) for target in panel["targets"]]
    states = {
        value: said["color"]
        for one in field["mappings"]
        if one["type"] == "value"
        for value, said in one["options"].items()
    }
    if states:
        (red,) = [value for value, colour in states.items() if colour == "red"]
        return f"max(({asked}) == bool {red})"
    steps = field["thresholds"]["steps"]
    assert field["color"]["mode"] == "thresholds"
    if steps[0]["color"] == "red":
        return f"min({asked}) < bool {steps[1]['value']}"
    assert steps[-1]["color"] == "red"
    return f"max({asked}) >= bool {steps[-1]['value']}"


def panels_of(alert: str) -> list[dict[str, Any]]:
    return [panel_of(panel["title"]) for panel in definitions() if alert in panel.get("alerts", [])]


def cases() -> list[Any]:
    """Every moment at which a case of rules_test.yml says that an alert fires."""
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())["tests"]
    return [
        pytest.param(test, moment, id=f"{moment['alertname']}-{moment['eval_time']}")
        for test in tests
        for moment in test["alert_rule_test"]
        if moment["exp_alerts"]
    ]


def evaluate(tmp_path: Path, test: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    """Asks Prometheus' own evaluation for these values. Raises AssertionError where they differ."""
    kept = {name: test[name] for name in ("interval", "input_series")}
    whole = {
        "rule_files": [str(PROMETHEUS / "rules.yml")],
        "evaluation_interval": test["interval"],
        "tests": [kept | {"promql_expr_test": expected}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(whole))
    promtool("test", "rules", str(tmp_path / "test.yml"))


def expect(expression: str, at: str, value: int) -> dict[str, Any]:
    return {"expr": expression, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}


@pytest.mark.parametrize(("test", "moment"), cases())
def test_a_panel_is_red_while_its_alert_fires(tmp_path: Path, test: dict[str, Any], moment: dict[str, Any]) -> None:
    """On the series that raise the alert each panel that names it is red, and there is one."""
    shown = panels_of(moment["alertname"])
    assert shown
    evaluate(tmp_path, test, [expect(is_red(panel), moment["eval_time"], 1) for panel in shown])


def test_a_healthy_system_is_not_red(tmp_path: Path) -> None:
    """In eight hours without a fault no panel of an alert is ever red, and each of them has a value."""
    alerts = {alert for panel in definitions() for alert in panel.get("alerts", [])}
    shown = {panel["title"]: panel for alert in alerts for panel in panels_of(alert)}
    series = [{"series": name, "values": values} for name, values in HEALTHY.items()]
    moments = [expect(is_red(panel), at, 0) for panel in shown.values() for at in ("30m", "4h", "8h")]
    assert len(moments) >= 3 * 14
    evaluate(tmp_path, {"interval": "1m", "input_series": series}, moments)


def test_every_alert_has_a_panel() -> None:
    """No alert fires of which no dashboard is red, and no panel names an alert that is none."""
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert {alert for panel in definitions() for alert in panel.get("alerts", [])} == alerts


def test_a_panel_that_goes_red_links_to_what_to_do() -> None:
    """Each has the page of its alerts among its links, by the address that the dashboard's box names."""
    rules = [
        rule for group in yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"] for rule in group["rules"]
    ]
    pages = {rule["alert"]: rule["annotations"]["runbook_url"].rsplit("/")[-1] for rule in rules if "alert" in rule}
    for panel in (panel for panel in definitions() if panel.get("alerts")):
        links = {link["url"] for link in panel_of(panel["title"])["links"]}
        assert {f"${{runbooks}}/{pages[alert]}" for alert in panel["alerts"]} <= links


def test_a_number_says_what_is_good() -> None:
    """A single number has colours of its own, or none: Grafana's are green below 80 and red above, whatever it is."""
    for _, panel in panels():
        field = panel["fieldConfig"]["defaults"]
        assert [step["value"] for step in field["thresholds"]["steps"]] != [None, 80]
        if panel["type"] == "stat":
            assert field["noValue"] != "no data", panel["title"]
        if panel["type"] == "state-timeline":
            assert any(one["type"] == "value" for one in field["mappings"]), panel["title"]


def test_links_lead_to_addresses_that_a_user_sets() -> None:
    """Links begin with the address of the console or of the runbooks, each a box at the top of every dashboard."""
    for name in NAMES:
        whole = dashboard(name)
        boxes = {one["name"] for one in whole["templating"]["list"] if one["type"] == "textbox"}
        assert boxes == {"console", "runbooks"}
        for panel in (panel for shown, panel in panels() if shown == name):
            links = [*panel.get("links", []), *panel.get("fieldConfig", {}).get("defaults", {}).get("links", [])]
            assert all(re.match(r"\$\{(console|runbooks)\}", link["url"]) for link in links)
