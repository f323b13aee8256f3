"""Removes from a text the parts that identify a person before it is stored, and can seal the stored text."""
