"""Proves the auditor `likelihood` on a model whose divergences are known."""
