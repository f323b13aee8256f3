"""Mode exact: truncation, reading of beginnings, the walk on the simulated model, and what a server must offer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from auditors.types import Completer, Completion, CompletionError, CompletionRequest
from benchmarks.errors import BenchmarkError
from benchmarks.run.client import open_client
from benchmarks.run.exact.server import probe
from benchmarks.run.exact.truncation import truncated
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.runner import run_plan
from benchmarks.run.score import score_recorded
from benchmarks.simulator import loading as profiles
from benchmarks.suites import registry
from benchmarks.suites.common.accepted_answers import OPEN, Reading
from benchmarks.suites.protocol import UNRELATED, UNRESOLVED, Item, Mode, ProtocolName, Reply, Sampling
from tests.support.benchmarks.scripted import MemoryLog, plan
from tests.support.simulated import running_simulator

PLANTED = {"p_stereotype": 0.7, "p_unrelated": 0.17, "p_refusal": 0.03}
PAPER = Sampling(max_tokens=3, top_p=0.95, top_k=50)

distributions = st.lists(st.floats(0.001, 1.0), min_size=2, max_size=60).map(
    lambda raw: sorted((p / sum(raw) for p in raw), reverse=True)
)


class TestTruncation:
    """What is sampled, from what is known."""

    @given(distributions, st.integers(1, 60), st.sampled_from([None, 5, 50]), st.sampled_from([None, 0.5, 0.95]))
    def test_bounds_hold(self, full: list[float], n_known: int, top_k: int | None, top_p: float | None) -> None:
        """The true probability lies between that given and that plus what is unseen, 0 where all is known."""
        assume(not _is_tie(full, top_k, top_p))
        sampling = Sampling(max_tokens=1, top_k=top_k, top_p=top_p)
        true = dict(_sampled(full, top_k, top_p))

        found = truncated([(str(rank), p) for rank, p in enumerate(full[:n_known])], sampling)

        assert sum(p for _, p in found.tokens) + found.unseen == pytest.approx(1)
        if n_known >= len(full):
            assert found.unseen == pytest.approx(0, abs=1e-6)
        for token, p in found.tokens:
            assert p - 1e-9 <= true.get(int(token), 0.0) <= p + found.unseen + 1e-9


def _sampled(full: list[float], top_k: int | None, top_p: float | None) -> list[tuple[int, float]]:
    """The definition, over the whole distribution: top_k, then the smallest set that holds top_p of the rest."""
    left = full[: top_k or len(full)]
    wanted = (1.0 if top_p is None else top_p) * sum(left)
    n = next((n for n in range(1, len(left) + 1) if sum(left[:n]) >= wanted), len(left))
    return [(rank, p / sum(left[:n])) for rank, p in enumerate(left[:n])]


def _is_tie(full: list[float], top_k: int | None, top_p: float | None) -> bool:
    """Whether some tokens hold top_p but for rounding, so that either reading of it is right."""
    left = full[: top_k or len(full)]
    return top_p is not None and any(abs(held - top_p * sum(left)) < 1e-9 for held in accumulate(left))


def item_of(suite: str, protocol: ProtocolName = "corrected", number: int = 0) -> Item:
    return prepare(RunOptions(suite=suite, model="m", data="embedded", protocol=protocol)).items[number]


class TestReading:
    """Beginnings of replies: settled, open, or no answer."""

    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("", OPEN),
            ("h", OPEN),
            ("he", OPEN),
            ("He", OPEN),
            ("he/", OPEN),
            ("he/sh", OPEN),
            ("he is", "male"),
            ("he.", OPEN),  # "he. She" would be neutral
            ("they.", "neutral"),
            ("himself ", OPEN),
            ("herb", UNRELATED),
            ("The", OPEN),
            ("The doctor", UNRELATED),
            ("It is he", OPEN),  # "It is hers" would be female
            ("It is he who", "male"),
        ],
    )
    def test_winobias(self, text: str, label: str) -> None:
        """A pronoun is settled by whatever follows that makes no other answer of it."""
        reading = Reading(registry.find("winobias"), item_of("winobias"), "corrected")

        assert reading.begun(text) == label

    def test_whole_text_rules_wait_for_the_end(self) -> None:
        """A choice alone settles nothing: words that do not belong to it undo it, a reason or a line below does not."""
        item = item_of("stereoset")
        choice = item.choices[0]
        reading = Reading(registry.find("stereoset"), item, "corrected")

        assert reading.labels == {"stereotype", "anti-stereotype"}
        for beginning in (choice.text[:1], choice.text, f"{choice.text}.", f"{choice.text}. ", "Choice1", "choice 1:"):
            assert reading.begun(beginning) == OPEN
        expected = UNRELATED if choice.role == "unrelated" else choice.role
        for whole in (choice.text, choice.text.upper(), f"“{choice.text}”.", "Choice1", f"Choice 1: {choice.text}"):
            assert reading.finished(whole) == expected
        assert reading.begun(f"{choice.text} because") == OPEN
        for whole in (f"{choice.text} because it", f"{choice.text}\n\nHere"):
            assert reading.begun(whole) == expected
        for beginning in (f"{choice.text} or", f"{choice.text} zebra crossing"):
            assert reading.begun(beginning) == UNRELATED

    def test_a_label_against_a_text_is_no_answer(self) -> None:
        """A letter with the text of another option is followed to its end, where it is malformed in mode sample too."""
        item = item_of("bbq")
        reading = Reading(registry.find("bbq"), item, "corrected")
        first, second = item.choices[:2]

        for beginning in ("A", "A. ", f"A. {second.text[:5]}", f"A. {second.text}"):
            assert reading.begun(beginning) == OPEN
        assert reading.begun(f"A. {second.text}.\n\nThe") == reading.finished(f"A. {second.text}") == UNRELATED
        assert reading.finished(f"A. {first.text}") == reading.begun("A\n\nBecause it") == first.role
        assert reading.finished("\\boxed{A}") == first.role

    @pytest.mark.parametrize("suite", ["stereoset", "crows_pairs", "bbq", "unqover", "winobias"])
    @pytest.mark.parametrize("protocol", ["corrected", "paper"])
    def test_accepted_answers_are_answers(self, suite: str, protocol: ProtocolName) -> None:
        """Every suite that offers the mode reads each accepted answer as one, and knows one for every value."""
        found = registry.find(suite)
        assert "exact" in found.modes
        for item in prepare(RunOptions(suite=suite, model="m", data="embedded", protocol=protocol)).items:
            reading = Reading(found, item, protocol)
            texts = found.accepted_answers(item, protocol=protocol)
            assert all(found.parse(item, text, protocol=protocol).status == "ok" for text in texts)
            roles = {choice.role for choice in item.choices} - {UNRELATED}
            assert len(reading.labels) >= max(2, len(roles))


@asynccontextmanager
async def simulated(**stereoset: float) -> AsyncIterator[Completer]:
    planted = profiles.parse({"name": "exact", "stereoset": stereoset})
    async with running_simulator(planted) as url:
        completer = open_client(url)
        try:
            yield completer
        finally:
            await completer.aclose()


async def measured(completer: Completer, **options: Any) -> tuple[Result, list[Reply]]:
    log = MemoryLog()
    settings = {"model": "simulated", **options}
    result = await run_plan(plan(**settings), completer=completer, log=log)
    return result, log.replies


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
async def test_planted_probabilities_are_read(protocol: ProtocolName) -> None:
    """On the simulated model each item has the planted probabilities, and the scores follow from them."""
    async with simulated(**PLANTED) as completer:
        result, replies = await measured(completer, mode="exact", protocol=protocol)

    assert (result.mode, result.counts["ok"]) == ("exact", 48)
    for reply in replies:
        assert reply.choice_probabilities == pytest.approx(
            {"stereotype": 0.56, "anti-stereotype": 0.24, UNRELATED: 0.2, UNRESOLVED: 0.0}
        )
    values = {one.metric: one for one in result.estimates if one.axis is None and one.subset is None}
    assert values["ss"].value == pytest.approx(70)
    assert values["lms"].value == pytest.approx(80)
    assert values["unrelated_rate"].n == 48
    assert values["ss"].extra["mean_unresolved"] == pytest.approx(0)
    assert values["refusal_rate"].value is None
    assert "does not tell refusals" in str(values["refusal_rate"].reason)
    assert result.provenance.requests <= 48 / 2  # several items share one; seven or eight are the probes


@pytest.mark.parametrize(("truncates", "p_unrelated"), [(False, 0.04), (True, 0.0)])
async def test_truncates_as_the_server_does(truncates: bool, p_unrelated: float) -> None:
    """A server that follows top_p leaves away the last 5 %, and so does mode exact; the simulated one does not."""
    async with simulated(p_stereotype=0.5, p_refusal=0.04) as inner:
        completer = Altered(inner, "truncates") if truncates else inner
        server = await probe(completer, "simulated", PAPER)
        _, replies = await measured(completer, mode="exact")

    assert server.ignored == (frozenset() if truncates else {"top_k", "top_p"})
    assert (replies[0].choice_probabilities or {})[UNRELATED] == pytest.approx(p_unrelated)


class Altered:
    """A server that says less than the simulated one, or takes more."""

    def __init__(self, inner: Completer, kind: str) -> None:
        self.n_asked = 0
        self._inner = inner
        self._kind = kind

    async def complete(self, request: CompletionRequest) -> Completion:
        self.n_asked += 1
        if self._kind == "truncates" and request.temperature == 1:
            request = msgspec.structs.replace(request, temperature=0.0)  # as top_k 1 would
        if self._kind == "ignores":
            unknown = {"continue_final_message", "add_generation_prompt"}
            extra = {name: value for name, value in request.extra.items() if name not in unknown}
            request = msgspec.structs.replace(request, extra=extra)
        if self._kind == "refuses" and "logprobs" in request.extra:
            raise CompletionError("rejected", "status 400: logprobs are not supported", status_code=400)
        found = await self._inner.complete(request)
        return msgspec.structs.replace(found, logprobs=None) if self._kind == "silent" else found

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("silent", "the server answers without log-probabilities"),
        ("refuses", "the server refuses top_logprobs=20: status 400: logprobs are not supported"),
        ("ignores", "the server ignores continue_final_message"),
    ],
)
async def test_a_server_that_cannot_is_told_apart_at_once(kind: str, words: str) -> None:
    """One line after a handful of requests, not an error per item."""
    async with simulated(**PLANTED) as inner:
        completer = Altered(inner, kind)
        with pytest.raises(BenchmarkError, match=words) as caught:
            await measured(completer, mode="exact")

    assert "\n" not in str(caught.value)
    assert "--mode sample" in str(caught.value)
    assert completer.n_asked <= 6


class TestRecorded:
    """Probabilities recorded elsewhere, scored again."""

    def replies(self, **probabilities: float) -> list[Reply]:
        found = {name.replace("_", "-"): p for name, p in probabilities.items()}
        return [Reply(item_id=item.item_id, choice_probabilities=found) for item in plan().items]

    def test_scored(self) -> None:
        """Lines with item_id and choice_probabilities are enough."""
        given_ = self.replies(stereotype=0.3, anti_stereotype=0.6, unrelated=0.1)
        result, replies = score_recorded(plan(mode="exact"), given_, where="file")

        assert {reply.status for reply in replies} == {"ok"}
        (ss,) = (one for one in result.estimates if one.metric == "ss" and one.axis is None and one.subset is None)
        assert ss.value == pytest.approx(100 / 3)
        assert ss.n == 48

    @pytest.mark.parametrize(
        ("probabilities", "words"),
        [
            ({"stereotypical": 1.0}, '"stereotypical" is not one of the labels'),
            ({"stereotype": 0.9}, "add up to 1, not to 0.9"),
            ({"stereotype": 1.5, "unrelated": -0.5}, "must be in"),
        ],
    )
    def test_impossible(self, probabilities: dict[str, float], words: str) -> None:
        """A label or a sum that cannot be is one clear line."""
        with pytest.raises(BenchmarkError, match=words):
            score_recorded(plan(mode="exact"), self.replies(**probabilities), where="file")


@pytest.mark.parametrize("suite", ["stereoset", "crows_pairs", "bbq", "unqover", "winobias"])
def test_certain_probabilities_score_as_replies(suite: str) -> None:
    """A certain probability scores and spreads as its reply does, but for refusals and clusters of equal values."""
    ready = {mode: prepare(RunOptions(suite=suite, model="m", data="embedded", mode=mode)) for mode in get_args(Mode)}
    found = registry.find(suite)
    said, sure = [], []
    for number, item in enumerate(ready["sample"].items):
        text = (
            ["He", "she", "they"][number % 3] if suite == "winobias" else item.choices[number % len(item.choices)].text
        )
        parsed = found.parse(item, text, protocol="corrected")
        assert parsed.status == "ok"
        said.append(Reply(item_id=item.item_id, text=text))
        sure.append(Reply(item_id=item.item_id, choice_probabilities={str(parsed.value): 1.0}))

    sample, _ = score_recorded(ready["sample"], said, where="file")
    exact, _ = score_recorded(ready["exact"], sure, where="file")

    assert len(sample.estimates) == len(exact.estimates)
    for one, other in zip(sample.estimates, exact.estimates, strict=True):
        if one.metric == "refusal_rate":
            continue
        assert (one.value, one.n, one.reason) == (other.value, other.n, other.reason)
        if other.lower == other.upper:
            assert other.lower in (None, other.value)
        elif one.metric != "icat":  # one of its two shares may be the same in all clusters
            assert (one.lower, one.upper) == (other.lower, other.upper)
