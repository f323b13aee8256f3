"""Live auditors in a real auditor process' parts: servers that hang, answers and prompts without a number."""

import msgspec
import pytest

from auditors.streams.estimates import bounds_of
from auditors.types import UNREAD_LANGUAGE
from gateway.auditor.live import LIVE_JOBS
from gateway.sampling.writer.direct import IDS_PER_JOB
from gateway.store import counters, exchanges
from gateway.store.database import Database
from tests.support.auditors.scripted import Reply, scripted_server
from tests.support.integration.auditing import auditing, config_for, sample, until
from tests.support.simulated import running_simulator
from tests.support.store.made import list_streams

pytestmark = pytest.mark.stores("sqlite")
PROMPT = msgspec.json.encode(
    {
        "model": "m",
        "messages": [{"role": "user", "content": "Write a letter for my sister, please."}],
        "user": "alice",
        "tools": [],
        "metadata": {"session": "s1"},
    }
)
ANSWER = "Here is the letter that you asked me for, for her."
REPLY = msgspec.json.encode({"choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}}]})


async def test_an_auditor_without_a_server_waits_for_none(database: Database) -> None:
    """While the judge does not answer, `refusal` audits every exchange, more than may be in progress at the judge."""
    count = (LIVE_JOBS + 1) * IDS_PER_JOB
    async with running_simulator() as upstream, scripted_server(lambda _: Reply(b"{}", delay=60)) as judge:
        sections = {
            "judge": {"model": "j", "base_url": judge.base_url},
            "embedding": {"enabled": False},
            "refusal": {"enabled": True},
        }
        async with auditing(config_for(database.url, upstream, auditors=sections)):
            for _ in range(0, count, IDS_PER_JOB):
                batch = await sample(database, IDS_PER_JOB, request_body=PROMPT, response_body=REPLY)

            async def is_done() -> bool:
                audits = await exchanges.audits(database, [one.id for one in batch])
                return all(done == {"refusal": "audited"} for done in audits.values())

            await until(is_done, within_seconds=20)
            assert await exchanges.backlog(database) != (0, None)


async def test_an_answer_that_cannot_be_read_is_counted_and_widens_bounds(database: Database) -> None:
    """It is audited, missing in the series of the group named, and counted by a reason that keeps no words of it."""
    message = {"role": "assistant", "content": "Det kan jag tyvärr inte hjälpa dig med, eftersom det är farligt."}
    unread = msgspec.json.encode({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    sections = {"judge": {"enabled": False}, "embedding": {"enabled": False}, "refusal": {"enabled": True}}
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream, auditors=sections)):
        await sample(database, 2, request_body=PROMPT, response_body=REPLY)
        batch = await sample(database, 3, request_body=PROMPT, response_body=unread)

        async def is_done() -> bool:
            return all((await exchanges.audits(database, [one.id for one in batch])).values())

        await until(is_done, within_seconds=50)
    found = {one.key.metric: one.state for one in await list_streams(database)}
    for metric in ("refusal_rate", "over_protection_rate"):
        assert (found[metric].sums.n, found[metric].n_missing) == (2, 3)
        assert bounds_of(found[metric]).upper == 1.0
    counted = {labels: n for (name, labels), n in (await counters.read(database)).items() if name == "abstentions"}
    assert counted == {("refusal", UNREAD_LANGUAGE): 3}


async def test_an_abstention_is_a_counted_absence(database: Database) -> None:
    """A prompt that is not swapped is audited without a value, in the series it would have entered, by its reason."""
    body = PROMPT.replace(b"my sister", b"my pregnant sister")
    async with running_simulator() as upstream:
        sections = {
            "judge": {"enabled": False},
            "embedding": {"enabled": False, "model": "simulated-embedder", "base_url": upstream},
            "counterfactual": {"enabled": True, "rate": 1.0},
        }
        async with auditing(config_for(database.url, upstream, auditors=sections)):
            batch = await sample(database, 3, request_body=body, response_body=REPLY)

            async def is_done() -> bool:
                return all((await exchanges.audits(database, [one.id for one in batch])).values())

            await until(is_done, within_seconds=50)
    (stream,) = await list_streams(database)
    assert (stream.key.metric, stream.key.group) == ("counterfactual_distance_excess", "woman")
    assert (stream.state.sums.n, stream.state.excluded) == (0, {"unrelated": 3})
    counted = {labels: n for (name, labels), n in (await counters.read(database)).items() if name == "abstentions"}
    assert counted["counterfactual", "bound to the group"] == 3
