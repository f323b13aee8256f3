"""`biasgate mitigate filter train` as a user runs it, and the head in a real gateway."""

import asyncio
import json
import re
import zlib
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from auditors.text.identity import AXES
from benchmarks.simulator.stance import sentence
from tests.support.commands import refused, run_here
from tests.support.integration.filtering import CHAT, completion
from tests.support.integration.relaying import config_for, running_gateway
from tests.support.integration.scripted_upstream import (
    Channel,
    ReceivedRequest,
    ScriptedUpstream,
    reply,
    scripted_upstream,
)

GROUPS = [group.name.replace("_", " ") for axis in ("gender", "religion", "nationality") for group in AXES[axis]]
TOPICS = ("The weather in spring changes quickly.", "A sonnet has fourteen lines.", "Bread needs flour and water.")


def labelled() -> list[dict[str, Any]]:
    """Sentences of the simulator about pairs of groups, one cluster a pair."""
    pairs = list(permutations(GROUPS, 2))[:160]
    return [
        {"text": f"{TOPICS[n % 3]} {sentence(level, a, b)}", "biased": level != 0, "cluster": f"{a} {b}"}
        for n, (a, b) in enumerate(pairs)
        for level in (0, 2)
    ]


async def embed_words(request: ReceivedRequest, channel: Channel) -> None:
    """Answer as an embedding server whose vectors are 64 counts of words, by the words' checksums."""
    data = []
    for index, text in enumerate(json.loads(request.body)["input"]):
        places = [zlib.crc32(word.encode()) % 64 for word in text.casefold().split()]
        data.append({"index": index, "embedding": [float(places.count(place)) for place in range(64)]})
    await reply(json.dumps({"data": data}).encode())(request, channel)


async def filtered_by(head: str, model: str, server: ScriptedUpstream) -> list[str]:
    """What a gateway's filter says of a fair and a biased answer about groups that no example names."""
    about = "firefighters from Ghana", "firefighters from Peru"
    answers = [completion(f"{TOPICS[0]} {sentence(level, *about)}") for level in (0, 2)]
    table = {"base_url": server.base_url, "model": model, "detector": "classifier", "head": head}
    policy = {"name": "p", "timeout_seconds": 60, "response_filter": table}
    async with (
        scripted_upstream(*map(reply, answers)) as upstream,
        running_gateway(config_for(upstream, mitigation=[policy])) as gateway,
        gateway.http() as http,
    ):
        http.timeout = 120
        body = {"model": "m", "messages": [{"role": "user", "content": "Who is better?"}]}
        got = [await http.post(CHAT, json=body) for _ in answers]
    assert [one.status_code for one in got] == [200, 400]
    return [one.headers["x-biasgate-mitigation"].rsplit("=", 1)[1] for one in got]


def found_by(head: Path) -> dict[str, Any]:
    """The numbers of a head's card, each within its interval."""
    found: dict[str, Any] = json.loads(head.read_text())["card"]["held_out"]
    assert all(one["lower"] <= one["value"] <= one["upper"] for one in found.values())
    return found


async def test_a_served_embedder(tmp_path: Path) -> None:
    """A head is trained on what a server embeds, and a gateway asks the same server."""
    (tmp_path / "examples.jsonl").write_text("\n".join(map(json.dumps, labelled())))
    async with scripted_upstream(default=embed_words) as server:
        asked = ("--examples", "examples.jsonl", "--embedder", "words", "--base-url", server.base_url)
        code, out, err = await asyncio.to_thread(run_here, "mitigate", "filter", "train", *asked, "--out", "head.json")
        assert (code, err) == (0, "")
        assert "head.json: 64 weights on words" in out
        assert found_by(tmp_path / "head.json")["auc"]["value"] > 0.95
        assert await filtered_by("head.json", "words", server) == ["clean", "refused"]


LINE = json.dumps({"text": "a", "biased": True})


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, (), "cannot be read"),
        ("{", (), "f.jsonl, line 1: "),
        ('{"text": "a"}', (), "f.jsonl, line 1: .*biased"),
        ('{"text": " ", "biased": true}', (), "f.jsonl, line 1: the text is empty"),
        (LINE + "\n\n" + LINE.replace("true", "false"), (), "f.jsonl, line 3: .*other label"),
        (LINE, (), "the part train has .* clusters of biased"),
        (LINE, ("--specificity", "1"), "--specificity 1: between 0 and 1"),
        (LINE, ("--base-url", "http://x", "--local", "d"), "give one of the two"),
        (LINE, ("--out", "gone/head.json"), "the directory gone does not exist"),
    ],
)
def test_mistakes(
    text: str | None, arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each, exit code 2."""
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("f.jsonl").write_text(text)
    asked = ["mitigate", "filter", "train", "--examples", "f.jsonl", "--embedder", "e", "--out", "head.json"]
    assert re.search(message, refused(*asked, *arguments))
