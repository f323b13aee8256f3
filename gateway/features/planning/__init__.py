"""What traffic of a given size needs, from what was measured: docs/scaling.md."""
