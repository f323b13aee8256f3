"""Computes the capacity that traffic of a given size needs, from measured costs: docs/scaling.md."""
