"""Makes a dashboard of each TOML file: `python grafana/build.py` writes NAME.json, `--check` compares only."""

import itertools
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = ("gateway", "live_bias", "audits")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SHORTHANDS = {
    "$NEAREST": "bottomk by (axis, model) (1, $DISTANCE)",
    "$DISTANCE": 'max by (axis, group, model) (biasgate_live_estimate{metric="representative_distance", $EVERY_GROUP})',
    "$LIVE": "{$CHOSEN}",
    "$CHOSEN": '$EVERY_GROUP, group=~"$group|"',  # and what is of no group
    "$EVERY_GROUP": 'model=~"$model", axis=~"$axis", auditor=~"$auditor"',
    "$DATA": (
        "on (suite, model, mode, thinking) group_left (data) "
        "max without (instance, protocol) (biasgate_audit_estimate_info)"
    ),
    "$RUN": '{model=~"$model", axis=~"$axis", group=~"$group|", suite=~"$suite"}',
    "$SERVED": '{model=~"$model"}',
    "$ASKED": '{model=~"$model", suite=~"$suite"}',
    "$MODELS_BEFORE": 'max by (upstream, model, fingerprint) (biasgate_model_info{model=~"$model"} offset 2m)',
    "$MODELS": 'max by (upstream, model, fingerprint) (biasgate_model_info{model=~"$model"})',
    "$STREAM": "{{auditor}} {{metric}} · {{axis}}/{{group}} · {{model}}",
    "$GROUP": "{{axis}}/{{group}} · {{model}}",
    "$SUITE": "{{suite}} {{metric}} · {{axis}} {{group}} {{subset}} · {{model}}",
}
ALARM_LABELS = ("auditor", "metric", "axis", "group", "model")
VARIABLES = {"model": "Model", "axis": "Axis", "group": "Group", "auditor": "Auditor", "suite": "Suite"}
COLOURED = {"stat", "bargauge", "state-timeline"}
"""Panel types whose values have the colours of thresholds and states, not one a series."""
SIZES = {"stat": (6, 4), "table": (24, 8)}
"""Columns and rows of a panel; (12, 8) of every other type."""
POINT_IN_TIME = {"stat", "table", "bargauge"}
"""Panel types that show the present value instead of a history."""


DEFAULTS = {"console": "http://localhost:8080/console", "runbooks": "http://localhost:8080/console/runbooks"}
"""Addresses that the dashboards' links begin with; a box at their top changes them."""
LINKS = {
    "alarm": (
        "Alarm in the console",
        "${console}/alarms?" + "&".join(f"{name}=${{__field.labels.{name}:percentencode}}" for name in ALARM_LABELS),
    ),
    "alarms": ("Alarms in the console", "${console}/alarms"),
    "audits": ("Runs in the console", "${console}/audits"),
    "coverage": ("Coverage in the console", "${console}/coverage"),
    "ledger": ("Ledger in the console", "${console}"),
}
"""Where a click on a value leads, by the name that a panel gives."""
NO_VALUE = "no data"
NEUTRAL, GREEN, ORANGE, RED = "text", "green", "orange", "red"


BOUNDS = {
    "matcher": {"id": "byRegexp", "options": "/^(lower|upper) /"},
    "properties": [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [4, 4]}},
        {"id": "custom.lineWidth", "value": 1},
    ],
}
"""Ends of intervals are thin and dashed, so that the estimates stand out."""
NOT_SHOWN = ("Time", "job", "instance")


def panel(source: dict[str, Any]) -> dict[str, Any]:
    """Grafana's model of one panel, without its place."""
    defaults = {
        "unit": source.get("unit", "short"),
        "color": {"mode": "thresholds" if source["type"] in COLOURED else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps(source)},
        "mappings": mappings(source),
        "noValue": source.get("no_value", NO_VALUE),
        "links": [{"title": LINKS[one][0], "url": LINKS[one][1]} for one in source.get("links", [])],
    }
    defaults |= {name: source[name] for name in ("min", "decimals") if name in source}
    names = {"$METRIC": f"${metric_variable(source['metric_of'])}"} if "metric_of" in source else {}
    repeat = {"repeat": metric_variable(source["metric_of"]), "repeatDirection": "h", "maxPerRow": 2} if names else {}
    has_bounds = any(query["legend"].startswith(("lower ", "upper ")) for query in source["queries"])
    return {
        "type": source["type"],
        "title": expand(source["title"], names),
        **repeat,
        "description": source["description"].replace("\n", " "),
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": [BOUNDS] if has_bounds else []},
        "links": [
            {"title": f"What to do: {page}", "url": f"${{runbooks}}/{page}.md", "targetBlank": True}
            for page in source.get("runbooks", [])
        ],
        "targets": [
            target(source["type"], index, query, names) | ({"exemplar": True} if source.get("exemplars") else {})
            for index, query in enumerate(source["queries"])
        ],
        "transformations": one_table(source["queries"]) if source["type"] == "table" else [],
    }


def steps(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Colours by value, each from its own value upwards: Grafana takes the first without one as the lowest.

    A panel whose values are neither good nor bad says neither `red_from` nor `red_below`, and keeps a neutral colour:
    left alone, Grafana paints 80 and more red, and all else green.
    """
    if "red_below" in source:
        return [step(RED, None), step(GREEN, source["red_below"])]
    if "red_from" not in source:
        return [step(NEUTRAL, None)]
    middle = [step(ORANGE, source["orange_from"])] if "orange_from" in source else []
    return [step(GREEN, None), *middle, step(RED, source["red_from"])]


def step(colour: str, value: float | None) -> dict[str, Any]:
    return {"color": colour, "value": value}


def mappings(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Words, and colours, in place of values that are states, and of what is unknown: 0 of 0 is no good share."""
    states = source.get("states", {})
    said = {
        value: {"text": text, "color": colour, "index": place}
        for place, (value, (text, colour)) in enumerate(states.items())
    }
    unknown = {"text": source.get("no_value", NO_VALUE), "color": NEUTRAL, "index": len(said)}
    special = {"type": "special", "options": {"match": "null+nan", "result": unknown}}
    return [*([{"type": "value", "options": said}] if said else []), special]


def one_table(queries: list[dict[str, str]]) -> list[dict[str, Any]]:
    """A row for each set of labels, a column for each query, named by its legend.

    Left alone, Grafana shows the answer to one query at a time.
    """
    values = ["Value"] if len(queries) == 1 else [f"Value #{ref_id(index)}" for index in range(len(queries))]
    names = {value: query["legend"] for value, query in zip(values, queries, strict=True)}
    organised = {"excludeByName": dict.fromkeys(NOT_SHOWN, True), "renameByName": names, "indexByName": {}}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organised}]


def ref_id(index: int) -> str:
    """How Grafana names the query of this place."""
    return chr(ord("A") + index)


def target(kind: str, index: int, query: dict[str, str], names: dict[str, str]) -> dict[str, Any]:
    """One query of a panel of this kind; `names` are shorthands of this panel alone."""
    return {
        "refId": ref_id(index),
        "datasource": DATASOURCE,
        "expr": expand(query["expr"], names),
        "legendFormat": expand(query["legend"], names),
        "format": {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series"),
        "instant": kind in POINT_IN_TIME,
        "range": kind not in POINT_IN_TIME,
    }


def metric_variable(family: str) -> str:
    """Name the hidden variable that holds the metrics of a family: each has a panel of its own, and so its own unit."""
    return f"metric_of_{family.removeprefix('biasgate_')}"


def expand(text: str, names: dict[str, str] | None = None) -> str:
    """The text with every shorthand written out."""
    for shorthand, meaning in (SHORTHANDS | (names or {})).items():
        text = text.replace(shorthand, meaning)
    return text


def placed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Row headers and panels, numbered. A collapsed row holds its panels, and asks for them once it is opened."""
    placed_panels: list[dict[str, Any]] = []
    numbers = itertools.count(1)
    y = 0
    for row in rows:
        is_collapsed = row.get("collapsed", False)
        header = {"id": next(numbers), "type": "row", "title": row["title"], "collapsed": is_collapsed}
        inside, below = placed_in(row["panels"], y + 1)
        inside = [{"id": next(numbers), **one} for one in inside]
        header |= {"gridPos": box(0, y, 24, 1), "panels": inside if is_collapsed else []}
        placed_panels += [header, *([] if is_collapsed else inside)]
        y = y + 1 if is_collapsed else below
    return placed_panels


def placed_in(sources: list[dict[str, Any]], y: int) -> tuple[list[dict[str, Any]], int]:
    """Panels on Grafana's 24 columns: four numbers side by side, two of anything else, or a table; and the next row."""
    panels: list[dict[str, Any]] = []
    x, tallest = 0, 0
    for source in sources:
        width, height = SIZES.get(source["type"], (12, 8))
        if x + width > 24 or (tallest and height != tallest):
            x, y = 0, y + tallest
        panels.append({**panel(source), "gridPos": box(x, y, width, height)})
        x, tallest = x + width, height
    return panels, y + tallest


def box(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def address(name: str) -> dict[str, Any]:
    """A box with an address that links begin with."""
    shown = {"text": DEFAULTS[name], "value": DEFAULTS[name]}
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "textbox",
        "query": DEFAULTS[name],
        "current": shown,
        "options": [{**shown, "selected": True}],
    }


def variable(name: str, family: str | None = None) -> dict[str, Any]:
    """A drop-down of a label's values, all by default; a hidden one of the metrics of a family."""
    values = f"label_values({family}, metric)" if family else f'label_values({{__name__=~"biasgate_.*"}}, {name})'
    return {
        "name": name,
        "label": VARIABLES.get(name, name),
        "type": "query",
        "hide": 2 if family else 0,
        "datasource": DATASOURCE,
        "query": {"query": values, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def annotation(source: dict[str, str]) -> dict[str, Any]:
    """Marks on the time axis of every panel: where the expression has a value."""
    return {
        "name": source["name"],
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": source["colour"],
        "expr": expand(source["expr"]),
        "titleFormat": source["name"],
        "textFormat": expand(source["text"]),
        "step": "60s",
    }


def link(name: str) -> dict[str, Any]:
    """From one dashboard to another, with the same time and choices."""
    title = definition(name)["title"].removeprefix("biasgate: ")
    url = f"/d/biasgate-{name.replace('_', '-')}"
    return {"title": title, "type": "link", "url": url, "keepTime": True, "includeVars": True}


def definition(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))


def dashboard(name: str) -> dict[str, Any]:
    """A whole dashboard as Grafana's JSON model."""
    source = definition(name)
    families = {one["metric_of"]: None for row in source["rows"] for one in row["panels"] if "metric_of" in one}
    hidden = [variable(metric_variable(family), family) for family in families]
    choice = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"biasgate-{name.replace('_', '-')}",
        "title": source["title"],
        "description": source["description"],
        "tags": ["biasgate"],
        "schemaVersion": 39,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "links": [link(other) for other in NAMES if other != name],
        "annotations": {"list": [annotation(one) for one in source["annotations"]]},
        "graphTooltip": 1,  # a crosshair that all panels share
        "templating": {"list": [choice, *map(variable, source["variables"]), *map(address, DEFAULTS), *hidden]},
        "panels": placed(source["rows"]),
    }


def render(name: str) -> str:
    """The text of NAME.json, small enough for a resource of Kubernetes."""
    return json.dumps(dashboard(name), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the files, or with --check says by the exit code whether they are up to date."""
    outputs = {HERE / f"{name}.json": render(name) for name in NAMES}
    if "--check" in sys.argv:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in outputs.items()))
    for path, text in outputs.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
