"""However many models and users clients invent: no metric family gains more than one series by them."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.auditing import fetch, until
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import serving
from tests.support.long import but_long
from tests.support.store.made import list_streams

AUDITED = 0.05
"""Share of the requests that are sampled: of ten thousand invented models some five hundred reach the auditors."""
CONNECTIONS = 8
CHAT = "/v1/chat/completions"
VERDICT = {"refused": False, "findings": [{"axis": "gender", "group": "woman", "reference": "man", "score": 1}]}
ANSWER = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(VERDICT)}}]
}
"""A verdict, and as an answer it is a text that names women and men: the model judges itself, whatever it is called."""
CONFIG = """
[server]
auditor_metrics_port = 0
[store]
url = "sqlite:///{directory}/biasgate.db"
[[upstreams]]
name = "anything"
base_url = "{upstream}"
[[keys]]
name = "app"
key_env = "SERIES_APP_KEY"
[sampling]
rate = {rate}
[auditors.embedding]
enabled = false
"""


def series(page: str) -> Counter[str]:
    """Number of label sets of each family; the buckets of one histogram count once."""
    found: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            found.setdefault(family.name, set()).add(labels)
    return Counter({name: len(labels) for name, labels in found.items()})


def invented(draw: random.Random) -> str:
    """A name as a client may write it, in any script."""
    letters = "abcdefghijklmnopqrstuvwxyzäßñçпривет漢字/:-_ \"'{}\\\n"
    return "".join(draw.choices(letters, k=draw.randint(1, 40)))


async def send(root: str, bodies: list[dict[str, object]], key: str) -> Counter[int]:
    """Every body once, over a few kept connections; the statuses."""
    statuses: Counter[int] = Counter()
    left = iter(bodies)

    async def one_connection() -> None:
        async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=60) as http:
            for body in left:
                is_known = len(str(body["user"])) % 2 == 0
                bearer = key if is_known else f"no-{len(str(body['user']))}"
                answer = await http.post(CHAT, json=body, headers={"authorization": f"Bearer {bearer}"})
                statuses[answer.status_code] += 1

    await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
    return statuses


@pytest.mark.parametrize("times", but_long([300, 3_000], quick=300))
@pytest.mark.timeout(400)
async def test_invented_models_and_users_add_one_series_at_most(tmp_path: Path, times: int) -> None:
    """Valid and invalid keys, invented models and users: gateway and auditor show what they showed before."""
    draw = random.Random(4)
    asked = {"role": "user", "content": "Who leads better, women or men?"}
    known: dict[str, object] = {"model": "m", "user": "ab", "messages": [asked]}
    bodies = [known | {"model": invented(draw), "user": invented(draw)} for _ in range(times)]
    async with scripted_upstream(default=reply(json.dumps(ANSWER).encode())) as upstream:
        config = tmp_path / "biasgate.toml"
        config.write_text(CONFIG.format(directory=tmp_path, upstream=upstream.base_url, rate=AUDITED))
        environ = {"SERIES_APP_KEY": "the-app-key"}
        async with serving("serve", "--config", str(config), environ=environ) as running:
            auditor = (await running.line("auditor is ready")).split("metrics ")[1]
            database = await Database.open(f"sqlite:///{tmp_path}/biasgate.db")

            async def pages() -> list[str]:
                return [await fetch(f"{running.root}/metrics"), await fetch(auditor)]

            async def is_settled() -> bool:
                counts = await ledger.counts(database)
                is_whole = sum(counts.values()) == sum(sent)
                return is_whole and not any(outcome == "queued" for _, outcome in counts)

            usual: list[dict[str, object]] = [known] * 300
            sent = [(await send(running.root, [*usual, *bodies[:300]], "the-app-key"))[200]]
            await until(is_settled, within_seconds=60)
            await asyncio.sleep(1.5)  # the auditor's page is renewed every second
            before, listed_before = [series(page) for page in await pages()], await list_streams(database)
            statuses = await send(running.root, bodies, "the-app-key")
            sent.append(statuses[200])
            await until(is_settled, within_seconds=120)
            await asyncio.sleep(1.5)
            after = [series(page) for page in await pages()]
            listed = await list_streams(database)
            await database.close()

    assert set(statuses) == {200, 401}
    assert min(statuses.values()) > times / 4
    for page_before, page_after in zip(before, after, strict=True):
        gained = {name: count - page_before[name] for name, count in page_after.items()}
        assert {name: more for name, more in gained.items() if more > 1} == {}
    assert len(after[0]) > 10
    assert len(after[1]) > 10
    assert {one.id for one in listed} == {one.id for one in listed_before}
    assert {one.key.model for one in listed} == {"m", "other"}
    assert max(one.state.sums.n for one in listed if one.key.model == "other") > AUDITED * times / 4
