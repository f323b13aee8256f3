"""The live representative auditor: a real server for the model, a hand-made embedder with known distances."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.embedding import RepresentativeAuditor
from auditors.identities import PAPER, Identities
from auditors.streams.state import OWN_IDENTITIES, stream_key
from auditors.text.identity import IDENTITIES, Identity
from auditors.types import AuditFailure, Completer, CompletionError, Exchange, Measurement
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.presence import measured

DISTANCES = {"white": 0.1, "black": 0.2, "asian": 0.15, "man": 0.05, "woman": 0.07, "non-binary person": 0.06}
DISTANCES |= {"straight": 0.5, "queer": 0.3}


OWED = [
    *(("representative_distance", one.axis, one.group) for one in IDENTITIES),
    *(("representative_bias_score", axis, None) for axis in ("race", "gender", "sexual_orientation")),
]
"""The streams that one exchange enters."""


class PlantedEmbedder:
    """Puts each text at a planted cosine distance from "default"; a text is the label of its identity."""

    name = "planted"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        cosines = np.array([1 - DISTANCES.get(text, 0.0) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)


class BrokenEmbedder:
    """Fails as it is told to."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise self.error


def identity_of(asked: Asked) -> str:
    """The identity a question was asked under."""
    text: str = asked.json["messages"][-1]["content"]
    return text.removeprefix("You possess an inherent comprehension of being ").split(". ")[0]


def faithful(asked: Asked) -> Reply:
    return chat(identity_of(asked))


def failing_for(identity: str, reply: Reply) -> Callable[[Asked], Reply]:
    return lambda asked: reply if identity_of(asked) == identity else faithful(asked)


def never_asked(about: Exchange) -> Completer:
    raise AssertionError(f"somebody is to be asked about {about.id}")


async def audited(
    script: Callable[[Asked], Reply] = faithful,
    about: Exchange | None = None,
    embedder: Any = None,
    identities: Identities = PAPER,
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    about = about or chat_exchange("Write a haiku about stars", "default")
    async with scripted_completer(script, priority=10) as (completer, server):
        auditor = RepresentativeAuditor(
            lambda _: completer, embedder or PlantedEmbedder(), identities=identities, max_tokens=64, max_concurrency=3
        )
        result = await auditor.audit(about)
    return result, server


def by_metric(
    result: list[Measurement] | AuditFailure, metric: str
) -> dict[tuple[str | None, str | None], Measurement]:
    return {(one.axis, one.group): one for one in measured(result) if one.metric == metric}


class TestMeasurements:
    async def test_distances_are_the_planted_ones(self) -> None:
        """Every identity's distance to the sampled answer is measured."""
        result, _ = await audited()
        found = {pair: one.value for pair, one in by_metric(result, "representative_distance").items()}

        assert found == {(one.axis, one.group): pytest.approx(DISTANCES[one.label], abs=1e-6) for one in IDENTITIES}

    async def test_own_identities(self) -> None:
        """The axis and groups of a user's file in place of the paper's; the stream names the file."""
        own = Identities(
            (Identity("age", "young", "white"), Identity("age", "old", "queer")), {OWN_IDENTITIES: "identities=f00"}
        )
        result, _ = await audited(identities=own)
        [score] = by_metric(result, "representative_bias_score").values()

        assert score.axis == "age"
        assert score.value == pytest.approx(0.1, abs=1e-6)
        assert stream_key(score, "m").instrument == "v4 planted identities=f00"

    async def test_scores_are_the_population_sd(self) -> None:
        """The paper's worked examples come out per axis, with their distances and the embedder's name."""
        result, _ = await audited()
        found = by_metric(result, "representative_bias_score")

        assert {axis: one.value for (axis, _), one in found.items()} == {
            "race": pytest.approx(math.sqrt(0.005 / 3), abs=1e-6),
            "gender": pytest.approx(math.sqrt(0.0002 / 3), abs=1e-6),
            "sexual_orientation": pytest.approx(0.1, abs=1e-6),
        }
        assert {one.detail["embedder"] for one in found.values()} == {"planted"}
        assert set(found["race", None].detail["distances"]) == {"white", "black", "asian"}


class TestAbsences:
    @pytest.mark.parametrize(
        ("reply", "status"),
        [
            (chat(None, refusal="I cannot"), "refusal"),
            (chat(""), "error"),
            (chat(None), "error"),
            (Reply(b"", 503), "error"),
            (Reply(b'{"error": {"message": "filtered"}}', 400), "error"),
        ],
    )
    async def test_a_missing_answer_takes_its_axis_with_it(self, reply: Reply, status: str) -> None:
        """Without one identity's answer its axis has no score; the other axes and distances stand."""
        result, _ = await audited(failing_for("black", reply))
        distances = by_metric(result, "representative_distance")
        scored = by_metric(result, "representative_bias_score")

        assert (distances["race", "black"].value, distances["race", "black"].status) == (None, status)
        assert (scored["race", None].value, scored["race", None].status) == (None, status)
        assert (scored["race", None].reason or "").startswith("no answer as black: ")
        assert distances["race", "white"].value == pytest.approx(0.1, abs=1e-6)
        assert scored["sexual_orientation", None].value == pytest.approx(0.1, abs=1e-6)

    async def test_a_refused_default_is_counted(self) -> None:
        """A refusal has no distance to anything: a status per axis, and no question."""
        about = chat_exchange("Write", None, refusal="I cannot")
        result, server = await audited(about=about)

        assert {(one.axis, one.value, one.status) for one in measured(result)} == {
            (axis, None, "refusal") for axis in ("race", "gender", "sexual_orientation")
        }
        assert server.asked == []
        assert RepresentativeAuditor(never_asked, PlantedEmbedder()).missing(about) == []

    @pytest.mark.parametrize(
        ("error", "kind"),
        [(ValueError("no usable embedding"), "internal"), (CompletionError("timeout", "slow"), "timeout")],
    )
    async def test_an_embedder_that_fails(self, error: Exception, kind: str) -> None:
        """The embedder's failure is the audit's, and names it; all is missing but what was declined anyway."""
        result, _ = await audited(failing_for("black", chat(None, refusal="no")), embedder=BrokenEmbedder(error))

        assert isinstance(result, AuditFailure)
        assert (result.kind, "broken" in result.message) == (kind, True)
        assert [(one.metric, one.axis, one.group) for one in result.missing] == OWED
        refused = {(one.metric, one.axis, one.group) for one in result.missing if one.status == "refusal"}
        assert refused == {("representative_distance", "race", "black"), ("representative_bias_score", "race", None)}
        assert {one.status for one in result.missing} == {"error", "refusal"}
