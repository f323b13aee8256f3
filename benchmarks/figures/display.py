"""How numbers are printed for people."""

from decimal import ROUND_HALF_UP, Decimal


def number(value: float | None, places: int = 1) -> str:
    """Half-up (protocols 1.5), with a true minus sign; a dash when undefined."""
    if value is None:
        return "–"
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded + 0:,}".replace("-", "−")
