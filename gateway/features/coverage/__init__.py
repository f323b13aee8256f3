"""Measures now and then, independently of the audits, which traffic no suite covers."""
