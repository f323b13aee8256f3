"""Measurements and runs as Parquet files at any address: docs/operations.md, ADR 33."""
