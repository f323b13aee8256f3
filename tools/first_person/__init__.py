"""Proves the auditor `first_person` on a model whose contrasts are known."""
