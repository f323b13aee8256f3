"""An estimate and its interval on the metric's own scale, as one line of SVG for a row of a table."""

from markupsafe import Markup

from gateway.console.rendering import number

WIDTH, HEIGHT, EDGE = 100, 18, 2
"""Sizes in the units of the view box, which is stretched to the cell."""
POINT = ("halo", "point")


def plot(
    scale: tuple[float, float],
    neutral: float | None,
    value: float | None,
    lower: float | None,
    upper: float | None,
    *,
    kind: str = "",
) -> Markup:
    """`<svg>` of class `kind`: scale, neutral, interval and value (None: none) in the metric's unit, and in words."""
    low, high = scale

    def x(at: float) -> float:
        clamped = min(max(at, low), high)
        return round(EDGE + (WIDTH - 2 * EDGE) * (clamped - low) / (high - low), 2)

    def line(name: str, start: float, end: float, top: float = HEIGHT / 2, bottom: float = HEIGHT / 2) -> str:
        return f'<line class="{name}" x1="{start}" x2="{end}" y1="{top}" y2="{bottom}"/>'

    parts = [line("track", EDGE, WIDTH - EDGE)]
    if neutral is not None and low <= neutral <= high:
        parts.append(line("neutral", x(neutral), x(neutral), 1, HEIGHT - 1))
    if lower is not None and upper is not None:
        parts.append(line("interval", x(lower), x(upper)))
    if value is not None:
        # Lines without length and with round ends: dots that the stretched view box cannot squash.
        parts += [line(name, x(value), x(value)) for name in POINT]
    ends = "without an interval" if lower is None else f"from {number(lower)} to {number(upper)}"
    value_text = "no value" if value is None else f"{number(value)}, {ends}"
    label = f"{value_text}, on a scale from {number(low, 0)} to {number(high, 0)}"
    begin = Markup('<svg class="plot {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">')
    return begin.format(kind, WIDTH, HEIGHT, label) + Markup("".join(parts) + "</svg>")  # noqa: S704 - numbers
