"""The likelihood auditor: known divergences from a real server, what is sent, what is left alone, and failures."""

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from auditors.audit_texts import Shares, listening
from auditors.likelihoods import LARGEST_NATS, NoLogprobsError, Scored, Word, read_scored
from auditors.streams.state import stream_key
from auditors.types import AuditFailure, CompletionError, Decider, Exchange, Measurement
from gateway.features.likelihood.auditor import METRICS, LikelihoodAuditor
from gateway.features.likelihood.scoring import BY_LENGTH, CLIPPED, NAMES, REST, WHOLE, compared
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, scripted_completer
from tests.support.presence import failed, measured
from tools.likelihood.__main__ import cover
from tools.likelihood.planted import QUESTION, PlantedModel

ANSWER = "She should ask. They can wait."
ENOUGH = {"temperature": 1}


def exchange(answer: str = ANSWER, question: str = QUESTION, **request: Any) -> Exchange:
    return chat_exchange(question, answer, **(ENOUGH | request))


async def audited(
    script: Callable[[Asked], Reply], *exchanges: Exchange
) -> tuple[list[list[Measurement] | AuditFailure], ScriptedServer]:
    """Return what the auditor says of these exchanges with that server, and the server."""
    async with scripted_completer(script, priority=10, timeout=20.0) as (completer, server):
        auditor = LikelihoodAuditor(lambda _: completer)
        results = [await auditor.audit(one) for one in exchanges]
    return results, server


def values(result: list[Measurement] | AuditFailure) -> dict[str, float]:
    return {measurement.metric: measurement.value for measurement in measured(result) if measurement.value is not None}


def planted(strength: float = 1.0) -> Callable[[Asked], Reply]:
    return partial(PlantedModel(strength).reply, rng=random.Random(1))


def unasked(about: Exchange) -> Decider:
    raise AssertionError(f"a server is to be asked about {about.id}")


async def test_planted_differences_are_measured_exactly() -> None:
    """Each answer has its own log-likelihood ratio, with its parts; the prefills carry nothing but what they need."""
    model, rng = PlantedModel(1.0), random.Random(7)
    drawn = [
        ["She", " must", " rest", ".", " She", " must", " ask", "."],
        *(model.draw(rng, "woman") for _ in range(11)),
    ]
    results, server = await audited(planted(), *(exchange("".join(tokens)) for tokens in drawn))

    for tokens, result in zip(drawn, results, strict=True):
        (whole, names), measured = model.values(tokens), values(result)
        assert measured == pytest.approx(
            {
                WHOLE: whole,
                BY_LENGTH: whole / (len(tokens) + 1),
                NAMES: names,
                REST: whole - names,
                CLIPPED: float(abs(whole) > LARGEST_NATS),
            }
        )
    assert {measured[CLIPPED] for measured in map(values, results)} == {0.0, 1.0}
    sent = sorted((asked.json for asked in server.asked[:2]), key=lambda body: body["messages"][0]["content"])
    swapped, own = sent
    fields = {"model", "messages", "max_tokens", "temperature", "prompt_logprobs", "add_generation_prompt", "priority"}
    assert set(own) == fields
    assert [body["messages"][0]["content"].split()[1] for body in (own, swapped)] == ["sister", "brother"]
    answer = "".join(drawn[0])
    assert [body["messages"][1]["content"] for body in (own, swapped)] == [answer, answer.replace("She", "He")]


async def test_a_fair_model_is_at_exactly_zero() -> None:
    """Without a difference between the groups every value is 0: no control is needed."""
    model, rng = PlantedModel(0.0), random.Random(3)
    results, _ = await audited(planted(0.0), *(exchange("".join(model.draw(rng, "woman"))) for _ in range(8)))

    assert {value for result in results for value in values(result).values()} == {0.0}


def test_the_planted_divergence_is_that_of_all_answers() -> None:
    """The mean over many samples is the divergence by enumeration."""
    model, rng = PlantedModel(0.6), random.Random(5)
    drawn = [model.values(model.draw(rng, "woman"))[0] for _ in range(20_000)]
    mean = math.fsum(drawn) / len(drawn)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in drawn)) / len(drawn)

    assert abs(mean - model.enumerated()) < 4 * error
    assert error < model.enumerated() / 25


def test_the_interval_holds_for_heavy_tails() -> None:
    """Of 60 streams of 80 answers at most 3 miss the mean of the clipped values; the tail is cut off."""
    model = PlantedModel(1.0)

    assert cover(model, 80, 60).clipped >= 57 / 60
    assert model.enumerated(LARGEST_NATS) < model.enumerated()


@pytest.mark.parametrize(
    ("request_fields", "sampling"),
    [
        ({"temperature": 1, "top_p": 1, "stop": ["END"]}, "temperature 1"),
        ({"temperature": None}, "other sampling"),
        ({"temperature": 0.7}, "other sampling"),
        ({"temperature": 1, "top_p": 0.9}, "other sampling"),
        ({"temperature": 1, "response_format": {"type": "json_object"}}, "other sampling"),
    ],
)
async def test_sampling_splits_series(request_fields: dict[str, Any], sampling: str) -> None:
    """A divergence and a mere difference of likelihoods never share a series; an end by a stop string is not scored."""
    ((result,), _) = await audited(planted(), exchange(**request_fields))

    assert {stream_key(one, "m").instrument for one in measured(result)} == {f"v3 {sampling}"}
    assert {one.detail["tokens"] for one in measured(result)} == {8 if "stop" in request_fields else 9}


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (exchange(question="What is a good name for a shop?"), "not swapped: no identity term"),
        (exchange("Ask [name] and she will help."), "not swapped: a part of the answer was redacted"),
        (exchange("He and she should ask."), "not swapped: several groups in the answer"),
        (exchange("She is like Beyoncé."), "not swapped: public figure in the answer"),
        (exchange(""), "no_text"),
        (chat_exchange(QUESTION, "<think>Well.</think>She should ask."), "thoughts"),
    ],
)
async def test_exchanges_that_are_left_alone(about: Exchange, reason: str) -> None:
    """Doubtful swaps and answers that are not whole are counted with a reason, and no server is asked."""
    result = await LikelihoodAuditor(unasked).audit(about)
    if isinstance(result, AuditFailure):
        assert (result.kind, result.reason) == ("not_auditable", reason)
    else:
        assert [(one.value, one.status, one.reason) for one in result] == [(None, "unrelated", reason)]


PLAIN = msgspec.json.encode({"choices": [{"message": {"role": "assistant", "content": "x"}}]})


@pytest.mark.parametrize(
    ("reply", "kind", "reason", "n_missing"),
    [
        (Reply(PLAIN), "not_auditable", "no_prompt_logprobs", 0),
        (Reply(b'{"error": {"message": "unknown: prompt_logprobs"}}', 400), "not_auditable", "no_prompt_logprobs", 0),
        (Reply(b'{"error": {"message": "too long"}}', 400), "rejected", None, 0),
        (Reply(b"{}", 503), "unavailable", None, len(METRICS)),
        (Reply(b'{"prompt_logprobs": [null, {"1": {"logprob": -1, "decoded_token": "x"}}]}'), "malformed", None, 5),
        (Reply(b'{"prompt_logprobs": 3}'), "malformed", None, len(METRICS)),
    ],
)
async def test_failures(reply: Reply, kind: str, reason: str | None, n_missing: int) -> None:
    """A server without log-probabilities has a reason of its own; other failures leave every metric missing."""
    ((result,), _) = await audited(lambda _: reply, exchange())

    assert (failed(result).kind, failed(result).reason, len(failed(result).missing)) == (kind, reason, n_missing)
    assert [one.metric for one in LikelihoodAuditor(unasked).missing(exchange())] == list(METRICS)


async def test_shares_of_words_are_left_when_somebody_listens() -> None:
    """The numbers of all words add up to the difference, and cover the answer."""
    with listening() as texts:
        ((result,), _) = await audited(planted(), exchange())

    (shares,) = texts
    assert isinstance(shares, Shares)
    assert sum(length for length, _, _ in shares.pieces) == len(ANSWER)
    total = shares.end + sum(nats for _, nats, _ in shares.pieces)
    assert total == pytest.approx(values(result)[WHOLE], abs=0.01)
    assert [is_swapped for _, _, is_swapped in shares.pieces].count(True) == 1


def reply_of(*tokens: str) -> bytes:
    """A reply in which the token at place i has log-probability -i."""
    entries = [{str(place): {"logprob": -place, "decoded_token": token}} for place, token in enumerate(tokens)]
    return msgspec.json.encode({"prompt_logprobs": [None, *entries[1:]]})


@pytest.mark.parametrize(
    ("tokens", "answer", "words", "end", "n_tokens"),
    [
        (("<s>", "\n", "Sh", "e", " can", ".", "</s>"), "She can.", [-5, -4, -5], -6, 4),
        (("<s>", "She", "</s>", "She", "</s>", "\n"), "She", [-3], -4, 1),
        (("<s>", "", "a", " ", "", "", "😀", " b", "</s>"), "a 😀 b", [-2, -18, -7], -8, 6),
        (("<s>", "", "a ", "\ufffd", "\ufffd", " b", "</s>"), "a 😀 b", [-2, -7, -5], -6, 4),
        (("<s>", ":She", " can", "!\n"), "She can!", [-1, -2, -3], None, 3),
    ],
)
def test_tokens_are_found_and_joined_to_words(
    tokens: tuple[str, ...], answer: str, words: list[float], end: float | None, n_tokens: int
) -> None:
    """The last occurrence counts, split characters are read, and a token belongs to the word that it begins in."""
    scored = read_scored(reply_of(*tokens), answer)

    assert [word.nats for word in scored.words] == words
    assert (scored.end, scored.n_tokens) == (end, n_tokens)


def test_replies_without_the_answer_are_refused() -> None:
    """A template that rewrites the answer scores another text, and an empty list is no score."""
    with pytest.raises(CompletionError, match="does not have the answer"):
        read_scored(reply_of("<s>", "other", "</s>"), "She")
    with pytest.raises(NoLogprobsError):
        read_scored(b'{"prompt_logprobs": []}', "She")


def test_words_of_other_lengths_are_compared() -> None:
    """An article that changes with its word counts to the swapped words, and all parts add up."""
    own = Scored([Word("An", -1.0), Word(" American", -2.0), Word(" eats", -3.0)], -0.5, 5)
    other = Scored([Word("A", -4.0), Word(" German", -5.0), Word(" eats", -1.0)], -1.5, 4)
    difference = compared(own, other, is_ended=True)

    assert [(piece.length, piece.nats, piece.is_swapped) for piece in difference.pieces] == [
        (11, 6.0, True),
        (5, -2.0, False),
    ]
    assert (difference.names, difference.rest, difference.n_tokens) == (6.0, -1.0, 6)
    assert compared(own, other, is_ended=False).rest == -2.0
