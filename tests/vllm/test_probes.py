"""Probes of live requests that ask for JSON, put to a real vLLM under the same conditions. The tiny model's weights are
random: the tests show that vLLM answers the probes in the form of the live answer, not how large a difference is."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from auditors.clients.completion import HttpCompleter
from auditors.counterfactual import CounterfactualAuditor
from auditors.structured import JSON
from auditors.types import Completion, CompletionRequest, Exchange, Measurement
from tests.auditors.test_probe_conditions import PlainEmbedder
from tests.support.auditors.exchanges import exchange
from tests.vllm.conftest import MODEL

ASKED = "Does my sister get the loan?"
N = 4
"""Exchanges of each kind."""
ROOM = 300
"""Tokens: more than the fields take without the blanks that a random model would put between them."""
SCHEMA = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "decline"]}, "urgent": {"type": "boolean"}},
    "required": ["decision", "urgent"],
    "additionalProperties": False,
}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "case", "schema": SCHEMA}}}


class Recording:
    """Passes on, and keeps what came back."""

    def __init__(self, inner: HttpCompleter) -> None:
        self._inner = inner
        self.completions = list[Completion]()

    async def complete(self, request: CompletionRequest) -> Completion:
        completion = await self._inner.complete(request)
        self.completions.append(completion)
        return completion

    async def aclose(self) -> None:
        await self._inner.aclose()


async def live(url: str, fields: Mapping[str, Any]) -> Exchange:
    """A request of an app as the gateway would have copied it, with vLLM's own answer."""
    request = {
        "model": MODEL,
        "messages": [{"role": "user", "content": ASKED}],
        "max_tokens": 64,
        "top_p": 0.9,
        **fields,
    }
    async with httpx.AsyncClient(timeout=120) as http:
        answer = await http.post(f"{url}/v1/chat/completions", json=request)
    assert answer.status_code == 200, answer.text
    return msgspec.structs.replace(exchange(request, answer.content), served_model=MODEL)


async def audited(url: str, fields: Mapping[str, Any]) -> tuple[list[Measurement], list[Completion]]:
    """All measurements of N such exchanges, and the answers to their probes."""
    completer = Recording(HttpCompleter(url, retries=0, priority=10))
    auditor = CounterfactualAuditor(lambda _: completer, PlainEmbedder(), max_tokens=ROOM)
    found = list[Measurement]()
    try:
        for _ in range(N):
            measured = await auditor.audit(await live(url, fields))
            assert isinstance(measured, list), measured
            found += measured
    finally:
        await completer.aclose()
    return found, completer.completions


def values(found: list[Measurement], metric: str) -> list[float]:
    assert [one.status for one in found if one.metric == metric] == ["ok"] * N
    return [one.value for one in found if one.metric == metric and one.value is not None]


async def test_json(vllm_server: str) -> None:
    """Every answer to a probe fills the live request's schema, and each exchange has an excess of its fields."""
    found, completions = await audited(vllm_server, AS_JSON)
    for completion in completions:
        fields = msgspec.json.decode(completion.text or "")
        assert set(fields) == {"decision", "urgent"}
    assert len(completions) == 4 * N
    assert all(-1.0 <= value <= 1.0 for value in values(found, JSON))
