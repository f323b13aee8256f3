"""Names of the jobs that canaries queue."""

CANARY_TASK = "run_canary"
"""Runs a canary: `{"canary_id": ...}`."""
