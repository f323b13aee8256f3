"""Holds what is shared by the suites asked in the form of "No LLM is Free From Bias" (protocols 3.1)."""

from collections.abc import Mapping

from auditors.types import Status
from benchmarks.suites.protocol import ProtocolName, Sampling, Scale

SEVERAL: Mapping[ProtocolName, Status] = {"paper": "unrelated", "corrected": "malformed"}
"""Status of a reply that names two different choices."""
REFUSAL_RATE = Scale(0, 100, "replies that decline; part of the unrelated ones", live="refusal_rate")


def sampling(max_tokens: int) -> Mapping[ProtocolName, Sampling]:
    """Return the printed settings; `corrected` gives a reply so many tokens instead of three."""
    return {
        "paper": Sampling(max_tokens=3, temperature=1.0, top_p=0.95, top_k=50),
        "corrected": Sampling(max_tokens=max_tokens, temperature=1.0, top_p=0.95, top_k=50),
    }
