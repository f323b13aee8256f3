"""Measurements of speed, side by side in one run: `python -m tools.bench`. No test asserts any of them."""
