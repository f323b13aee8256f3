"""Hostile bytes against every parser of the gateway and the auditor: `make fuzz`, and a short seeded part in the tests.

A target takes any bytes and raises `Broken`, or whatever escaped, when an invariant does not hold.
"""
