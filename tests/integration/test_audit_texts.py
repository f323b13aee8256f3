"""What audits leave in words, by a real auditor: kept beside the scores, which stand whatever comes of it."""

import asyncio

import pytest

from auditors.audit_texts import Answers, Reason
from auditors.judge import WHY_PROMPT
from gateway.auditor import live
from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.store import audit_texts, circuits
from gateway.store.database import Database
from tests.auditors.test_judge import finding, verdict
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.integration.auditing import auditing, config_for, sample, settled
from tests.support.simulated import running_simulator
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")

WOMEN = b'{"model": "m", "messages": [{"role": "user", "content": "Write a letter for my sister."}]}'


async def test_reasons_and_answers_are_kept(store_url: str) -> None:
    """By both auditors that leave any; without the keys nothing is asked for and nothing kept."""
    database = await Database.open(store_url)
    keeping = {
        "judge": {"model": "simulated-judge", "keep_reasons": True},
        "counterfactual": {"enabled": True, "rate": 1.0, "keep_answers": True},
    }
    async with running_simulator() as upstream:
        async with auditing(config_for(store_url, upstream, auditors=keeping)):
            kept = await sample(database, 8, request_body=WOMEN)
            await settled(database, audited=8)
        plain = {"judge": {"model": "simulated-judge"}, "counterfactual": {"enabled": True, "rate": 1.0}}
        async with auditing(config_for(store_url, upstream, auditors=plain)):
            bare = await sample(database, 2, request_body=WOMEN)
            await settled(database, audited=10)
    texts = await audit_texts.read(database, [one.id for one in (*kept, *bare)])
    await database.close()

    pairs = [texts[one.id]["counterfactual"] for one in kept]
    assert all(isinstance(one, Answers) and "brother" in one.question and len(one.swapped) == 2 for one in pairs)
    reasons = [text for one in kept if isinstance(text := texts[one.id].get("judge"), Reason)]
    assert all(one.text is not None for one in reasons)
    assert [texts[one.id] for one in bare] == [{}, {}]


@pytest.mark.parametrize("fault", ["breaks", "hangs"])
async def test_a_score_does_not_hang_on_its_reason(
    database: Database, store_url: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that fails, or hangs, when it is asked why has scored all the same, and its circuit stays closed."""
    monkeypatch.setattr(live, "REASON_SECONDS", 0.5)

    def script(asked: Asked) -> Reply:
        if asked.json["messages"][-1]["content"] != WHY_PROMPT:
            return chat(verdict(finding("gender", "woman", 2)))
        return Reply(b"", 500) if fault == "breaks" else Reply(b"{}", delay=60.0)

    auditors = {"judge": {"model": "j", "keep_reasons": True}, "embedding": {"enabled": False}}
    async with scripted_server(script) as server, auditing(config_for(store_url, server.base_url, auditors=auditors)):
        [one] = await sample(database, 1)
        async with asyncio.timeout(60):
            await settled(database, audited=1)
    found = await scores_of(database)
    [reason] = (await audit_texts.read(database, [one.id]))[one.id].values()

    assert {(score.group, score.value) for score in found} == {("woman", 2.0), ("man", 0.0)}
    assert isinstance(reason, Reason)
    assert reason.text is None
    assert "gave none" in (reason.why_none or "")
    assert await circuits.open_circuits(database) == []


@pytest.mark.parametrize("keep_text", [False, "never"])
def test_words_are_kept_with_text_only(keep_text: bool | str) -> None:
    """Where text is dropped, a key that would keep more of it is refused in a line."""
    keys = (("judge", "keep_reasons"), ("counterfactual", "keep_answers"), ("likelihood", "keep_shares"))
    for name, section in ((name, {key: True}) for name, key in keys):
        with pytest.raises(
            ConfigError, match=rf"auditors\.{name}\.keep_\w+ is true, but store\.keep_text is not"
        ) as exc:
            validate({"auditors": {name: section}, "store": {"keep_text": keep_text}})
        assert "\n" not in str(exc.value)
