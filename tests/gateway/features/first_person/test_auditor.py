"""The first-person auditor: what is drawn and sent, known contrasts from a real server, what is left out, failures."""

import random
import statistics
from collections import Counter
from collections.abc import Callable
from math import sqrt
from typing import Any

import msgspec
import pytest

from auditors.registry import build, need_embedder
from auditors.text.names import BEARERS
from auditors.types import AuditFailure, Exchange, Measurement, Servers
from gateway.config.schema import FirstPersonConfig
from gateway.features.first_person import lines
from gateway.features.first_person.auditor import FirstPersonAuditor
from gateway.features.first_person.lines import BY_WORDING, CONTRASTS, DISTANCE, LENGTH, REFUSAL, WORDINGS, draw
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.auditors.word_embedder import WordEmbedder
from tests.support.presence import failed, measured
from tools.first_person.__main__ import planted_streams
from tools.first_person.planted import REFUSED, WORLDS, PlantedModel, World

QUESTION = "What should I cook tonight?"
ANSWERS, LIKELIHOOD = FirstPersonConfig(max_tokens=64), FirstPersonConfig(by="likelihood")
BY_GENDER = next(f"e{n}" for n in range(100) if draw(f"e{n}")[:1] + draw(f"e{n}")[3:4] == ("gender", "sentence"))
"""Id of an exchange that compares names of women and of men in a sentence."""


def exchange(question: str = QUESTION, identity: str = BY_GENDER, **request: Any) -> Exchange:
    return msgspec.structs.replace(chat_exchange(question, "Soup.", **request), id=identity)


async def audited(
    script: Callable[[Asked], Reply], about: Exchange, section: FirstPersonConfig = ANSWERS
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    async with scripted_completer(script) as (completer, server):
        embedder = WordEmbedder() if need_embedder({"first_person": section}) else None
        servers = Servers(completer_for=lambda _: completer, decider_for=lambda _: completer, embedder=embedder)
        result = await build("first_person", section, servers).audit(about)
    return result, server


def by_gender(of_women: str, of_men: str) -> Callable[[Asked], Reply]:
    """Answers by the gender of the name, with the name in place of NAME."""

    def answer(asked: Asked) -> Reply:
        name = str(asked.json["messages"][0]["content"]).removesuffix(".").split()[-1]
        return chat((of_women if BEARERS[name.lower()].gender == "woman" else of_men).replace("NAME", name))

    return answer


def test_draws_are_balanced_and_repeatable() -> None:
    """Contrasts, wordings and places are equally frequent; names differ in the axis alone, at places of their own."""
    draws = [draw(f"exchange {number}") for number in range(4_000)]

    assert draws[:50] == [draw(f"exchange {number}") for number in range(50)]
    for drawn in draws:
        users = [BEARERS[name.lower()] for name in drawn.names]
        races, genders = {user.race for user in users}, {user.gender for user in users}
        assert [len(races), len(genders)] == ([1, 2] if drawn.axis == "gender" else [2, 1])
        assert [getattr(user, drawn.axis) for user in users] == [drawn.group, drawn.reference] * 2
        assert len({user.place for user in users}) == 4
        assert len(set(drawn.lines)) == 4
    for counts, n_kinds in (
        (Counter(drawn[:3] for drawn in draws), len(CONTRASTS)),
        (Counter(drawn.wording for drawn in draws), len(WORDINGS)),
        (Counter(BEARERS[drawn.names[0].lower()].place for drawn in draws), 20),
    ):
        error = sqrt(4_000 / n_kinds)
        assert len(counts) == n_kinds
        assert all(abs(count - 4_000 / n_kinds) < 5 * error for count in counts.values())


async def test_what_is_sent() -> None:
    """The auditor sends the request four times, the groups in turn, and changes only a line of the system message."""
    lines = draw(BY_GENDER).lines
    for system in ([], [{"role": "system", "content": "Be brief."}]):
        turns = [*system, {"role": "user", "content": QUESTION}]
        result, server = await audited(lambda _: chat("Soup."), exchange(messages=turns, temperature=0.5))

        contents = ["\n\n".join(filter(None, ["Be brief." if system else "", line])) for line in lines]
        sent = sorted((asked.json["messages"] for asked in server.asked), key=str)
        assert sent == sorted(([{"role": "system", "content": text}, turns[-1]] for text in contents), key=str)
        assert {(asked.json["temperature"], asked.json["max_tokens"]) for asked in server.asked} == {(0.5, 64)}
        assert {measurement.value for measurement in measured(result)} == {0.0}


async def test_what_is_scored() -> None:
    """By likelihood the answer is scored without a line and with each; 0 throughout where names do not matter."""
    result, server = await audited(scored, exchange(temperature=1), LIKELIHOOD)

    question, answer = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Soup."}
    systems = [[], *([{"role": "system", "content": line}] for line in draw(BY_GENDER).lines)]
    sent = [asked.json["messages"] for asked in server.asked]
    assert sorted(sent, key=str) == sorted(([*system, question, answer] for system in systems), key=str)
    assert {measurement.value for measurement in measured(result)} == {0.0}
    assert Counter(measurement.group for measurement in measured(result)) == {"woman": 5, "man": 2, "sentence": 2}


def scored(asked: Asked) -> Reply:
    """Return the log-probabilities of a model that ignores names."""
    return Reply(PlantedModel(WORLDS[0], 0).scored(asked.json))


@pytest.mark.parametrize(("answer", "reason"), [("<think>Well.</think>Soup.", "thoughts"), ("Ask [email].", "other")])
async def test_answers_that_are_not_whole_are_not_scored(answer: str, reason: str) -> None:
    """An answer without its thoughts, or with a part redacted, is not the answer that the model gave."""
    result, server = await audited(scored, chat_exchange(QUESTION, answer), LIKELIHOOD)

    assert (failed(result).reason, server.asked) == (reason, [])


@pytest.mark.parametrize(
    ("of_women", "of_men", "contrasts"),
    [
        ("Dear NAME, he cooks.", "Dear NAME, she cooks.", (0.0, 0.0, 0.0)),
        ("soup soup soup", "soup", (0.0, 0.0, 0.5)),
        (REFUSED, "soup", (None, 1.0, None)),
    ],
)
async def test_contrasts(of_women: str, of_men: str, contrasts: tuple[float | None, ...]) -> None:
    """An echo of names and pronouns is not a difference; lengths are relative; a refusal leaves no words to compare."""
    result, _ = await audited(by_gender(of_women, of_men), exchange())

    values = {measurement.metric: measurement.value for measurement in measured(result)}
    distance, refusal, length = (pytest.approx(contrast, abs=1e-6) for contrast in contrasts)
    assert values == {REFUSAL: refusal, DISTANCE: distance, LENGTH: length, BY_WORDING: distance}
    places = {(measurement.metric, measurement.group) for measurement in measured(result)}
    assert places == {(metric, "woman") for metric in (REFUSAL, DISTANCE, LENGTH)} | {(BY_WORDING, "sentence")}
    assert {tuple(measurement.detail["names"]) for measurement in measured(result)} == {tuple(draw(BY_GENDER).names)}


@pytest.mark.parametrize(
    ("rating", "excesses", "status"),
    [
        ('{{"quality": {quality}, "sentiment": "-1"}}', (0.4, 0.0), "ok"),
        ('{{"quality": {quality}.5, "sentiment": 0}}', (None, None), "malformed"),
    ],
)
async def test_a_judge_rates_answers(rating: str, excesses: tuple[float | None, ...], status: str) -> None:
    """The judge rates each answer without its names; ratings outside the scales leave the other metrics as they are."""
    drawn, rated = by_gender("NAME likes tasty soup", "NAME likes soup"), list[str]()

    def script(asked: Asked) -> Reply:
        if asked.json["model"] != "judge":
            return drawn(asked)
        rated.append(asked.json["messages"][1]["content"].split("[ANSWER")[1])
        return chat(rating.format(quality=9 if "tasty" in rated[-1] else 5))

    result, _ = await audited(script, exchange(), FirstPersonConfig(max_tokens=64, model="judge"))

    values = {measurement.metric: measurement.value for measurement in measured(result)}
    assert (values[lines.QUALITY], values[lines.SENTIMENT]) == excesses
    assert (values[REFUSAL], len(values)) == (0.0, 6)
    assert {each.status for each in measured(result) if each.judge is not None} == {status}
    assert not any(name in text for name in draw(BY_GENDER).names for text in rated)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.title)
async def test_means_are_those_planted(world: World) -> None:
    """The mean of each stream is within 4.5 standard errors of that planted, and its interval has it."""
    streams = await planted_streams(PlantedModel(world, 3), 400, 3)

    assert len(streams) == 8 * len(CONTRASTS) + 2 * 6 + 3 * 2 * len(WORDINGS)
    for key, series in streams.items():
        error = statistics.stdev(series.values) / sqrt(len(series.values))
        planted = world.expected(key.metric, key.axis, key.group)
        assert abs(statistics.fmean(series.values) - planted) <= 4.5 * error, key
        assert (series.interval.lower or 0.0) - 1e-9 <= planted <= (series.interval.upper or 0.0) + 1e-9, key


async def test_the_control_takes_off_chance_alone() -> None:
    """Words drawn without regard to names have no excess in the mean, however far answers lie apart."""
    rng, values = random.Random(5), list[float]()
    async with scripted_completer(lambda _: chat(" ".join(rng.choices("abcdefgh", k=4)))) as (completer, _):
        auditor = FirstPersonAuditor(lambda _: completer, WordEmbedder())
        for number in range(60):
            result = measured(await auditor.audit(exchange(identity=f"chance {number}")))
            values += [measurement.value or 0.0 for measurement in result if measurement.metric == DISTANCE]

    assert abs(statistics.fmean(values)) < 4 * statistics.stdev(values) / sqrt(60)


@pytest.mark.parametrize(
    ("request_fields", "is_named"),
    [
        ({"question": "My name is Ann. Which wine fits?"}, True),
        ({"question": "I\u2019m Ann, hello!"}, True),
        ({"question": "Call me Ann."}, True),
        ({"messages": [{"role": "user", "content": "Hi", "name": "ann"}]}, True),
        ({"messages": [{"role": "developer", "content": "- Name: Ann"}, {"role": "user", "content": "Hi"}]}, True),
        ({"messages": [{"role": "system", "content": "The user is Ann."}, {"role": "user", "content": "Hi"}]}, True),
        ({"question": "I'm tired. Call me a taxi, and name a book."}, False),
        ({"question": "My boss is called Ann."}, False),
        ({"messages": [{"role": "system", "content": "Your name is Aria."}, {"role": "user", "content": "Hi"}]}, False),
    ],
)
async def test_users_with_a_name_are_left_out(request_fields: dict[str, Any], is_named: bool) -> None:
    """A request that states its user's name is not auditable, with a reason of its own, and no server is asked."""
    result, server = await audited(lambda _: chat("Soup."), exchange(**request_fields))

    assert (isinstance(result, AuditFailure), len(server.asked)) == ((True, 0) if is_named else (False, 4))
    assert getattr(result, "reason", None) == ("named_user" if is_named else None)


@pytest.mark.parametrize(
    ("reply", "kind", "reason", "n_missing"),  # by answers, and by likelihood
    [
        (Reply(b'{"error": {"message": "no system role"}}', 400), "not_auditable", "no_system_message", (0, 0)),
        (Reply(b'{"error": {"message": "too many images"}}', 400), "rejected", None, (0, 9)),
        (Reply(b"{}", 503), "unavailable", None, (4, 9)),
    ],
)
async def test_failures(reply: Reply, kind: str, reason: str | None, n_missing: tuple[int, int]) -> None:
    """A template without system messages has a reason of its own; a sick server leaves every metric missing."""
    for section, n in zip((ANSWERS, LIKELIHOOD), n_missing, strict=True):
        result, _ = await audited(
            lambda asked: reply if asked.json["messages"][0]["role"] == "system" else scored(asked), exchange(), section
        )

        assert (failed(result).kind, failed(result).reason, len(failed(result).missing)) == (kind, reason, n)
