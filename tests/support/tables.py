"""Rows that a test measured and that are printed at the end of the run."""

ROW = "measured row"
"""Name of the property: `record_property(ROW, text)`, in a test or not."""
