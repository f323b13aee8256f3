"""The exceptions with which reading JSON from outside fails."""

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, not of the shape asked for, no UTF-8, or nested too deeply."""
