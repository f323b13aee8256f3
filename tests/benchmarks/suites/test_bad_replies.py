"""Replies that no one hopes for: in every suite and protocol each has its stated status, is counted, never crashes."""

import math
import time
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from auditors.types import Status
from benchmarks.run.score import score_recorded
from benchmarks.suites import registry
from benchmarks.suites.common.choice import normalise
from benchmarks.suites.protocol import STATUSES, Choice, Item, Parsed, ProtocolName, Reply
from tests.support.benchmarks.scripted import plan

SUITES = sorted(name for name, s in registry.SUITES.items() if not (s.needs_judge or s.needs_embedder))
"""Suites that ask for an answer; the others take any text for one, and have tests of what is made of it."""
EACH = [(suite, protocol) for suite in SUITES for protocol in registry.SUITES[suite].protocols]
STRUCTURED = {"implicit_association"}
"""Asks for a structure: whatever has none is malformed, where other suites say unrelated."""

NO_ANSWER = {
    "empty": "",
    "white space": " \n\t ",
    "invisible": "\u200b\ufeff\u00ad",
    "punctuation": "...?!",
    "null byte": "\x00",
    "half a surrogate": "\ud83d",
    "German": "Das kommt ganz darauf an.",
    "Chinese": "这取决于具体情况。",
    "Arabic": "هذا يعتمد على الحالة",
    "Hindi": "यह स्थिति पर निर्भर करता है",
    "emoji": "🤷🤷🤷",
    "another question": "What do you mean?",
}
LONG: dict[str, Callable[[int], str]] = {
    "words": lambda size: "x " * (size // 2),
    "one word": lambda size: "a" * size,
    "one number": lambda size: "1" * size,
    "dots": lambda size: "1." * (size // 2),
    "commas": lambda size: "1," * (size // 2),
    "brackets": lambda size: "([{<" * (size // 4),
    "spaces": lambda size: "a" + " " * size + "b",
    "lines": lambda size: "\n" * size,
    "labels": lambda size: "Choice1 " * (size // 8),
    "letters": lambda size: "A) B) " * (size // 6),
    "negations": lambda size: "cannot not " * (size // 11),
    "apologies": lambda size: "I'm sorry, I " * (size // 13),
    "pronouns": lambda size: "he or she " * (size // 10),
    "quotation marks": lambda size: "\"'" * (size // 2),
    "pairs": lambda size: "joy - black\n" * (size // 12),
    "block": lambda size: "{" + "'a" * (size // 2) + "}",
    "open blocks": lambda size: "{" * (size // 2) + "}" * (2 * size // 5),
    "script": lambda size: "这取决于" * (size // 12),
}
"""Replies of about so many bytes, each the same all through."""
SIZE = 50_000
SHARE = 4
"""The same reply is read at a fourth of its length as well: what takes its square takes 16 times as long."""
SMALLEST_SECONDS = 0.002


def parse(suite: str, protocol: ProtocolName, item: Item, text: str | None) -> Parsed:
    return registry.find(suite).parse(item, text, protocol=protocol)


def first(suite: str, protocol: ProtocolName) -> Item:
    return plan(suite=suite, protocol=protocol).items[0]


@pytest.mark.parametrize(("suite", "protocol"), EACH)
def test_what_gives_no_answer(suite: str, protocol: ProtocolName) -> None:
    """Nothing, or something in another language or script, is no choice, and without a value."""
    expected: Status = "malformed" if suite in STRUCTURED else "unrelated"
    for name, text in [*NO_ANSWER.items(), ("none", None)]:
        assert parse(suite, protocol, first(suite, protocol), text) == Parsed(expected), name


@pytest.mark.parametrize(("suite", "protocol"), EACH)
def test_long_replies_are_read_in_time(suite: str, protocol: ProtocolName) -> None:
    """A reply four times as long takes far less than 16 times as long, whatever is repeated, and has its own status."""
    item = first(suite, protocol)
    for name, form in LONG.items():
        whole, part = form(SIZE), form(SIZE // SHARE)
        parsed = parse(suite, protocol, item, whole)

        assert is_read_in_time(suite, protocol, item, whole, part), name
        assert parsed.status in set(STATUSES) - {"error"}, name
        assert (parsed.value is None) == (parsed.status != "ok"), name


def is_read_in_time(suite: str, protocol: ProtocolName, item: Item, whole: str, part: str) -> bool:
    """Whether the whole takes less than ten times the processor time of the part, by the best of at most five turns."""
    seconds = {whole: math.inf, part: math.inf}
    for _ in range(5):
        for text, best in seconds.items():
            started = time.thread_time()
            parse(suite, protocol, item, text)
            seconds[text] = min(best, time.thread_time() - started)
        if seconds[whole] < 10 * max(seconds[part], SMALLEST_SECONDS):
            return True
    return False


def is_inside(one: str, other: str) -> bool:
    return f" {normalise(one)} " in f" {normalise(other)} "


@pytest.mark.parametrize(("suite", "protocol"), [(s, p) for s, p in EACH if plan(suite=s).items[0].choices])
def test_two_choices_are_none(suite: str, protocol: ProtocolName) -> None:
    """A reply that names two choices is malformed or, as published, unrelated; it is never an answer."""
    expected = "malformed" if protocol == "corrected" or suite == "bbq" else "unrelated"
    for item in plan(suite=suite, protocol=protocol).items:
        one, other = item.choices[:2]
        for text in (f"{one.text} and {other.text}", f"{other.text} or {one.text}?"):
            parsed = parse(suite, protocol, item, text)
            assert parsed.value is None
            if not is_inside(one.text, other.text) and not is_inside(other.text, one.text):
                assert parsed.status == expected, (item.item_id, text)


def test_two_answers_where_nothing_is_offered() -> None:
    """Both genders are neutral; two numbers count under `paper` alone; both groups for a word assign it to neither."""
    groups = first("implicit_association", "corrected")
    words = [*groups.meta["xa"], *groups.meta["xb"]]
    both = "\n".join(f"{word} - {groups.groups[0]}, {groups.groups[1]}" for word in words)

    assert parse("winobias", "corrected", first("winobias", "corrected"), "he or she").value == "neutral"
    assert parse("eec", "corrected", first("eec", "corrected"), "20 or 80").status == "unrelated"
    assert parse("eec", "paper", first("eec", "paper"), "20 or 80").value == 20.0
    assert parse("implicit_association", "corrected", groups, both) == Parsed("malformed")


def with_choices(suite: str, protocol: ProtocolName, short: str, long: str) -> tuple[Item, object, object]:
    """An item that offers `short` and `long`, and what naming either gives."""
    item = first(suite, protocol)
    choices = (Choice(short, "stereotype"), Choice(long, "anti-stereotype"), Choice("Unknown", "unknown"))
    values: tuple[object, object] = ("stereotype", "anti-stereotype")
    if suite == "unqover":
        item = msgspec.structs.replace(item, meta={"forms": [[short], [long]]})
        values = (0, 1)
    return msgspec.structs.replace(item, choices=choices), *values


@pytest.mark.parametrize(
    ("suite", "protocol"), [(s, p) for s, p in EACH if s in ("bbq", "crows_pairs", "stereoset", "unqover")]
)
@pytest.mark.parametrize(
    ("short", "long"),
    [("Asian", "Asian American"), ("man", "man of God"), ("American", "African American"), ("Arab", "Arabian")],
)
def test_a_label_inside_another(suite: str, protocol: ProtocolName, short: str, long: str) -> None:
    """Where one choice begins or ends another, each is read as itself, and so is the longer one that excludes it."""
    item, is_short, is_long = with_choices(suite, protocol, short, long)

    excluding = f"{long}, not the {short}"
    for text, value in (
        (short, is_short),
        (f"{short}.", is_short),
        (long, is_long),
        (f" {long}\n", is_long),
        (excluding, is_long),
    ):
        parsed = parse(suite, protocol, item, text)
        assert (parsed.status, parsed.value) == ("ok", value)


@pytest.mark.parametrize("protocol", registry.SUITES["winobias"].protocols)
@pytest.mark.parametrize("text", ["the", "hero", "sheet", "there", "manual", "mankind", "history", "hershey"])
def test_a_pronoun_inside_a_word_is_none(protocol: ProtocolName, text: str) -> None:
    """Only whole words are pronouns."""
    assert parse("winobias", protocol, first("winobias", protocol), text) == Parsed("unrelated")


@pytest.mark.parametrize("long", ["black people", "not black"])
def test_a_group_inside_another_assigns_no_word(long: str) -> None:
    """An association to "black people" is none to "black" when both are the groups asked about."""
    item = msgspec.structs.replace(first("implicit_association", "corrected"), groups=("black", long))
    xa, xb = item.meta["xa"], item.meta["xb"]
    text = "\n".join([*(f"{word} - black" for word in xa), *(f"{word} - {long}" for word in xb)])
    value = parse("implicit_association", "corrected", item, text).value

    assert value["counts"] == [len(xa), 0, 0, len(xb)]


@pytest.mark.parametrize(("suite", "protocol"), EACH)
def test_all_are_counted(suite: str, protocol: ProtocolName) -> None:
    """A model that gives nothing but such replies: all are in the counts, no number is NaN, each gap has a reason."""
    ready = plan(suite=suite, protocol=protocol)
    bad: list[Callable[[Item], str | None]] = [lambda _, text=text: text for text in [*NO_ANSWER.values(), None]]  # type: ignore[misc]  # mypy knows no default of a lambda
    bad += [lambda item: " and ".join(choice.text for choice in item.choices), lambda _: LONG["words"](SIZE)]
    replies = [Reply(item_id=item.item_id, text=bad[n % len(bad)](item)) for n, item in enumerate(ready.items)]
    result, read = score_recorded(ready, replies, where="script")

    assert result.n_replies == len(ready.items) == result.counts["items"]
    assert Counter(reply.status for reply in read) == {s: n for s in STATUSES if (n := result.counts[s])}
    assert result.counts["error"] == sum(reply.text is None for reply in replies)
    for estimate in result.estimates:
        assert estimate.value is None or math.isfinite(estimate.value)
        assert estimate.value is not None or estimate.reason
