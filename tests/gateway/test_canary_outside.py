"""What others read of a canary: the webhook, and the templates for Argo Rollouts."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for one call

from gateway.__main__ import OneLineParser
from gateway.auditor.canary import webhook
from gateway.auditor.canary.webhook import Webhook
from gateway.canary.comparison import Verdict
from gateway.canary.request import CanaryRequest, Side
from gateway.canary.shown import ShownCanary
from gateway.cli import canary as command
from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.store import canaries
from gateway.store.canaries import Canary
from gateway.store.database import Database
from tests.support.auditors.scripted import Asked, Reply, scripted_server

ARGO = Path(__file__).parents[2] / "deploy" / "argo" / "analysis-template.yaml"
HOOK = validate({"audits": {"canary_webhook_env": "CANARY_HOOK"}})


async def held(directory: Path) -> Canary:
    """A canary that has ended."""
    database = await Database.open(f"sqlite:///{directory / 'store.db'}")
    request = CanaryRequest(stable=Side(model="a"), canary=Side(model="b"))
    canary_id = await canaries.create(database, request, max_queued=1)
    assert await canaries.claim(database, canary_id)
    assert await canaries.finish(database, canary_id, "hold", ["nothing to replay"])
    found = await canaries.get(database, canary_id)
    await database.close()
    return found


async def test_the_webhook_is_told_again_until_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent what GET shows, once more after a failure, and no more after that."""
    monkeypatch.setattr(webhook, "PAUSES_SECONDS", (0.01, 0.01))
    found = await held(tmp_path)

    def script(_: Asked) -> Reply:
        return Reply(b"", 500 if len(server.asked) == 1 else 204)

    async with scripted_server(script) as server:
        monkeypatch.setenv("CANARY_HOOK", f"{server.base_url}/hook?token=t")
        await Webhook(HOOK).tell(found)
    assert [one.path for one in server.asked] == ["/hook", "/hook"]
    assert server.asked[1].json == msgspec.to_builtins(canaries.shown(found))
    assert server.asked[1].headers["content-type"] == "application/json"
    assert not caplog.records


async def test_a_webhook_that_never_listens_costs_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After three tries the log says why, without the URL, which may hold a secret."""
    monkeypatch.setattr(webhook, "PAUSES_SECONDS", (0.01, 0.01))
    monkeypatch.setenv("CANARY_HOOK", "http://127.0.0.1:9/secret-path")
    await Webhook(HOOK).tell(await held(tmp_path))

    said = [record.getMessage() for record in caplog.records if record.name == webhook.__name__]
    assert len(said) == 1
    assert "was not told of hold: ConnectError" in said[0]
    assert "secret-path" not in said[0]


@pytest.mark.parametrize(("value", "words"), [(None, "not set"), ("hooks.example.org", "must be a URL that starts")])
def test_a_webhook_that_cannot_work_stops_the_start(
    value: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is not set, or holds no URL, is one line that names it and not its value."""
    monkeypatch.delenv("CANARY_HOOK", raising=False)
    if value:
        monkeypatch.setenv("CANARY_HOOK", value)
    with pytest.raises(ConfigError, match=words) as caught:
        Webhook(HOOK)

    assert "CANARY_HOOK" in str(caught.value)
    assert "hooks.example" not in str(caught.value)


def templates() -> dict[str, Any]:
    """By name the one metric of each template."""
    found = list(yaml.safe_load_all(ARGO.read_text()))
    assert {one["kind"] for one in found} == {"AnalysisTemplate"}
    assert all(len(one["spec"]["metrics"]) == 1 for one in found)
    return {one["metadata"]["name"]: one["spec"]["metrics"][0] for one in found}


def test_argo_reads_every_verdict_that_there_is() -> None:
    """Success and failure name all verdicts but the one that means to wait, and the field that is shown."""
    metric = templates()["biasgate-canary"]

    named = {one for one in get_args(Verdict) if f'"{one}"' in metric["successCondition"] + metric["failureCondition"]}
    assert named == set(get_args(Verdict)) - {"undecided"}
    assert '"promote"' in metric["successCondition"]
    assert metric["provider"]["web"]["jsonPath"] == "{$.verdict}"
    assert "verdict" in ShownCanary.__struct_fields__
    assert metric["provider"]["web"]["url"].endswith("/canaries/{{args.canary-id}}")


def test_argo_calls_the_command_as_it_is() -> None:
    """The job's arguments are ones that the command takes."""
    pod = templates()["biasgate-canary-job"]["provider"]["job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parser = OneLineParser()
    command.add_arguments(parser)

    assert container["command"] == ["biasgate"]
    assert container["args"][0] == "canary"
    read = parser.parse_args(container["args"][1:])
    assert (read.action, read.timeout, read.key_env) == ("wait", 14400.0, container["env"][0]["name"])
