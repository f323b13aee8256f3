"""Measurements and runs as Parquet files at any address: docs/export.md, ADR 33."""
