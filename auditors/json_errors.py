"""The exceptions with which reading JSON from outside fails."""

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for bytes that are not JSON, not of the shape asked for, not UTF-8, or nested too deeply."""
