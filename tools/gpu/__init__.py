"""Measure biasgate on a bare GPU machine that is at hand for a quarter of an hour: see README.md beside this file."""
