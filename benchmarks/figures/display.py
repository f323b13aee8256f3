"""Prints numbers for people."""

from decimal import ROUND_HALF_UP, Decimal


def number(value: float | None, places: int = 1) -> str:
    """Half-up (protocols 1.5), with a true minus sign; a dash when undefined."""
    if value is None:
        return "–"
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded + 0:,}".replace("-", "−")


def signed(value: float | None, places: int = 1) -> str:
    """Return the number as `number` does, with a plus sign, as the papers print differences; 0 has no sign."""
    text = number(value, places)
    return f"+{text}" if value is not None and text.strip("0.,−") and value > 0 else text
