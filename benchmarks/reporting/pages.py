"""Holds what the pages share: templates, the drawing of an interval, and how numbers and names are written."""

from functools import cache
from pathlib import Path

import jinja2

from auditors.types import Estimate
from benchmarks.figures.display import group_words, number, signed
from benchmarks.figures.panels import Scale as Across
from benchmarks.reporting.headline import chance_words, heading, part, places
from benchmarks.run.estimation import mark
from benchmarks.run.result import shown_fields
from benchmarks.suites.protocol import Scale

BAR_WIDTH = 132


def bar(estimate: Estimate, scale: Scale) -> dict[str, float | None]:
    """Return positions in pixels of a single interval bar; None if there is nothing to draw."""
    across = Across(low=scale.low, high=scale.high, start=4.0, end=BAR_WIDTH - 4.0)
    drawn = {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper, "ideal": scale.ideal}
    return {name: None if value is None else round(across.at(value), 2) for name, value in drawn.items()}


def _detail(estimate: Estimate) -> str:
    return (
        part("", estimate.group, estimate.reference, estimate.subset).removeprefix("all axes").removeprefix(", ")
        or "all"
    )


def standalone_svg(svg: str) -> str:
    """Return a picture's wide drawing as an SVG file with the page's styles; it looks the same everywhere."""
    drawing = svg[: svg.index("</svg>") + len("</svg>")].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    start = drawing.index(">") + 1
    rules = "\n".join(template(name).render() for name in ("palette.css", "figures.css")).splitlines()
    styles = "\n".join(rule for rule in rules if not rule.startswith("@media"))
    return (
        f"{drawing[:start]}<style>svg {{ background: #fff; font-family: sans-serif }} {styles}</style>{drawing[start:]}"
    )


@cache
def template(name: str, *folders: Path) -> jinja2.Template:
    """Return a template of `templates/`, or of another folder, with the names that it may use."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent / "templates", *folders]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "number": number,
        "signed": signed,
        "mark": mark,
        "chance_words": chance_words,
        "group_words": group_words,
        "bar": bar,
        "bar_width": BAR_WIDTH,
        "places": places,
        "shown_fields": shown_fields,
    }
    environment.filters |= {
        "heading": heading,
        "detail": _detail,
        "axis": lambda estimate: (estimate.axis or "all axes").replace("_", " "),
    }
    return environment.get_template(name)
