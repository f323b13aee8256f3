"""Reads the parts of the store that the API and the console show: a single layer for both."""
