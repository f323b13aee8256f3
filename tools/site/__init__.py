"""Builds the manual as a site: `make docs`."""
