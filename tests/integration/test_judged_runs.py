"""Runs asked for through the store whose replies a judge reads: who judges, and what two runs give together."""

import html
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from benchmarks.datasets.spec import HOME_VARIABLE
from benchmarks.run.client import host
from benchmarks.run.qualifications import place_of
from benchmarks.suites.decision.scores import METRIC
from gateway.store import runs
from gateway.store.database import Database
from gateway.store.runs import Run
from tests.gateway.cli.test_judge_qualify import QUALIFICATION, QUESTION
from tests.support.integration.auditing import auditing, config_for, until
from tests.support.integration.running_suites import ask_for_run, await_status, kept_replies
from tests.support.simulated import running_simulator


def scores(run: Run) -> dict[str | None, float | None]:
    result: dict[str, Any] = json.loads(run.result or "")
    return {one["axis"]: one["value"] for one in result["estimates"] if one["metric"] == METRIC}


@pytest.mark.stores("sqlite")
async def test_the_configured_judge_reads_the_replies(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge of `[auditors.judge]` stores each judgement's text, and the run warns while it has no qualification."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)):
        run_id = await ask_for_run(database, suite="ltf_test", limit=44)
        run = await await_status(database, run_id, "done", "failed")
        assert run.status == "done", run.error
        judge = json.loads(run.result or "")["provenance"]["judge"]
        question = replace(QUESTION, uses=("ltf_test",), prompt_sha256=judge[0]["prompt_sha256"], stamps=[])
        place = place_of("simulated-judge", host(upstream), "ltf_test")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encode(replace(QUALIFICATION, judge_model="simulated-judge", questions=(question,))))
        again = await await_status(database, await ask_for_run(database, suite="ltf_test", limit=11), "done", "failed")
    told = 'the judge "simulated-judge" has no qualification for ltf_test (biasgate judge qualify)'
    used = json.loads(run.result or "")["judge"]
    assert (used["qualified"], used["warnings"]) == (False, [told])
    assert told in html.unescape(run.report or "")
    used = json.loads(again.result or "")["judge"]
    assert (used["qualified"], used["warnings"]) == (True, [])
    provenance = json.loads(run.result or "")["provenance"]
    judge, addresses = provenance["judge"], provenance["addresses"]
    assert {addresses["base_url"], f"http://{provenance['base_url_host']}"} == {upstream}
    replies = [json.loads(body) for body in await kept_replies(database, run_id)]
    assert [one["model"] for one in judge] == ["simulated-judge"]
    assert 22 <= len(replies) <= 44
    assert all(reply["judge"]["text"] for reply in replies if reply["status"] in ("ok", "refusal"))


@pytest.mark.long
@pytest.mark.stores("sqlite")
async def test_association_and_decisions_give_a_bias_score_in_either_order(database: Database) -> None:
    """Whichever ends last, the decision run has it; runs that differ in an option have none."""
    for last in ("decision", "implicit_association"):
        async with running_simulator() as upstream, auditing(config_for(database.url, upstream)):
            ids = {}
            for suite in sorted(("decision", "implicit_association"), key=lambda name: name == last):
                ids[suite] = await ask_for_run(database, suite=suite, seed=len(last))
                assert (await await_status(database, ids[suite], "done", "failed")).status == "done"
            other = await ask_for_run(database, suite="decision", seed=99)
            alone = await await_status(database, other, "done", "failed")

            async def has_it(run_id: str = ids["decision"]) -> bool:
                run = await runs.get(database, run_id)
                return run is not None and None not in scores(run).values()

            await until(has_it)
        assert set(scores(alone).values()) == {None}
