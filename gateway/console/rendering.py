"""Renders pages of the console from Jinja2 templates, and their live parts, which are sent again when they change."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from gateway.feature import FEATURES


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a page."""

    template: str
    title: str
    data: Mapping[str, Any]
    tab: str = ""
    """Address of the entry of the navigation that it belongs to."""


class Fragment(msgspec.Struct, frozen=True):
    """A part of a page between `{% call live("name") %}` and `{% endcall %}`."""

    digest: str
    html: str


class Rendered(msgspec.Struct, frozen=True):
    """A page, and its live parts by name."""

    title: str
    html: str
    fragments: Mapping[str, Fragment]


def render(view: View, shell: Mapping[str, Any]) -> Rendered:
    """Render in milliseconds, so in a thread. `shell`: what surrounds every page (gateway.console.showing)."""
    fragments: dict[str, Fragment] = {}

    def live(name: str, caller: Callable[[], str]) -> Markup:
        html = str(caller())
        fragments[name] = Fragment(hashlib.blake2b(html.encode(), digest_size=8).hexdigest(), html)
        # Rendered by Jinja2, which has escaped what is in it.
        return Markup('<div class="live" id="live-{}" data-digest="{}">{}</div>').format(
            name,
            fragments[name].digest,
            Markup(html),  # noqa: S704
        )

    n_alarms = shell.get("n_alarms") or 0
    title = f"{f'({n_alarms}) ' if n_alarms else ''}{view.title} – biasgate"
    html = _environment().get_template(view.template).render(**shell, **view.data, view=view, title=title, live=live)
    return Rendered(title, html, fragments)


def macro(template: str, name: str) -> Callable[..., Markup]:
    """A macro of a template, for a part of a page that is sent by itself."""
    loaded: Callable[..., Markup] = getattr(_environment().get_template(template).module, name)
    return loaded


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        # Figures are those of reports, in their macros.
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("gateway.console", "templates"),
                jinja2.PackageLoader("benchmarks.reporting", "templates"),
                jinja2.FileSystemLoader([feature.templates() for feature in FEATURES.values()]),
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: tuple[Callable[..., str], ...] = (words, number, signed, whole, share, moment, when, seconds)
    environment.filters |= {function.__name__: function for function in filters}
    return environment


def words(name: str | None) -> str:
    return (name or "").replace("_", " ")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with a true minus sign; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """A number with its sign, for differences."""
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and text.strip("0.,") else text


def whole(value: float | None) -> str:
    return "–" if value is None else f"{round(value):,}"


def share(value: float | None) -> str:
    """Return a share in percent; a share that is not quite all or nothing is not rounded to it."""
    if value is None:
        return "–"
    if 0 < value < 0.0005:
        return "<0.1 %"
    if 0.9995 < value < 1:
        return ">99.9 %"
    return f"{100 * value:.1f} %"


def moment(unix: float | None) -> str:
    return "–" if unix is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix))


def when(unix: float | None) -> Markup:
    """A `<time>` that the page's script keeps as "5 min ago"; without it, the time in UTC."""
    if unix is None:
        return Markup("–")
    machine = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))
    return Markup('<time datetime="{}">{}</time>').format(machine, moment(unix))


def seconds(value: float | None) -> str:
    """A duration in its largest unit that says enough."""
    if value is None:
        return "–"
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.0f} s"
