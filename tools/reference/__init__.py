"""Writes the listings of the manual's reference pages from the code: metrics, keys, routes, commands."""
