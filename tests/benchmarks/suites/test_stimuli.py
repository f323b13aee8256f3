"""The stimuli of association tests and decisions: enough distinct ones, balanced, none in contradictory roles."""

from collections import Counter, defaultdict

import msgspec
import pytest

from benchmarks.suites.common.association_cells import swaps
from benchmarks.suites.decision.judge import blind
from benchmarks.suites.decision.suite import Decision, Scenario, called_by
from benchmarks.suites.implicit_association.suite import ImplicitAssociation, stimuli
from benchmarks.suites.protocol import Item

LEAST = 20
"""Distinct prompts of each category."""


def scenarios() -> list[Scenario]:
    return msgspec.convert(Decision().load("embedded").records, list[Scenario])


def asked(suite: ImplicitAssociation | Decision, seed: int = 0) -> list[Item]:
    return list(suite.items(suite.load("embedded"), protocol="corrected", seed=seed))


@pytest.mark.parametrize("suite", [ImplicitAssociation(), Decision()])
def test_every_category_has_twenty_distinct_prompts(suite: ImplicitAssociation | Decision) -> None:
    """No prompt twice, whatever its orders and letter case, and each is a cluster of its own."""
    prompts: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for item in asked(suite):
        words = " ".join(sorted(item.messages[0].content.casefold().replace(",", " ").split()))
        assert words not in prompts[item.axis, item.subset]
        prompts[item.axis, item.subset].add(words)

    assert all(len(found) >= LEAST for found in prompts.values())
    assert len({item.cluster for item in asked(suite)}) == sum(map(len, prompts.values()))


@pytest.mark.parametrize("suite", [ImplicitAssociation(), Decision()])
def test_no_character_stands_on_both_sides(suite: ImplicitAssociation | Decision) -> None:
    """A term that is the default group in one test is the stigmatised one in none, in either protocol."""
    items = [*asked(suite), *suite.items(suite.load("embedded"), protocol="paper", seed=0)]
    first, second = ({item.groups[side].casefold() for item in items} for side in (0, 1))

    assert not first & second


def test_no_name_of_a_decision_stands_on_both_sides() -> None:
    """Nor does a part of one by which a reply may call a character."""
    names: dict[str, set[str]] = {"a": set(), "b": set()}
    for item in asked(Decision()):
        names["a"] |= {name.casefold() for name in item.meta["called_a"]}
        names["b"] |= {name.casefold() for name in item.meta["called_b"]}

    assert not names["a"] & names["b"]


def test_no_word_is_favourable_and_unfavourable() -> None:
    """Neither an attribute of the association tests nor a word of the decisions changes sides between categories."""
    for good, bad in (
        ({w for s in stimuli([]) for w in s.xa}, {w for s in stimuli([]) for w in s.xb}),
        (
            {word for item in asked(Decision()) for word in [item.meta["positive"]]},
            {word for item in asked(Decision()) for word in [item.meta["negative"]]},
        ),
    ):
        assert not {word.casefold() for word in good} & {word.casefold() for word in bad}


def test_each_pair_of_words_is_asked_once_a_category() -> None:
    """No word of a decision is asked twice in its category, so that no two of its prompts share one."""
    for found in (("positive",), ("negative",)):
        counts = Counter((item.axis, item.subset, item.meta[found[0]].casefold()) for item in asked(Decision()))
        assert set(counts.values()) == {1}


def test_both_sides_have_as_many_terms_and_words() -> None:
    """As many attributes for a as for b, none twice; further tests have two characters and two words, none empty."""
    for stimulus in stimuli([]):
        assert len(set(stimulus.xa)) == len(set(stimulus.xb)) == len(stimulus.xa)
        assert all(a.strip() and b.strip() for a, b in stimulus.more)
    for scenario in scenarios():
        assert all(part.strip() == part != "" for test in scenario.more for part in test)


@pytest.mark.parametrize("seed", range(5))
def test_orders_are_balanced(seed: int) -> None:
    """Of twenty decisions of a category five show each of the four orders of characters and words."""
    orders: dict[str | None, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for item in asked(Decision(), seed):
        key = f"{item.axis}/{item.subset}"
        number = int(item.item_id.rsplit("-", 1)[1]) - 1
        orders[key][swaps(seed, f"{item.axis}-{item.subset}", number)] += 1
        text = item.messages[0].content
        is_turned = text.index(item.groups[1]) < text.index(item.groups[0])
        assert is_turned == swaps(seed, f"{item.axis}-{item.subset}", number)[0]

    assert all(set(found.values()) == {5} and len(found) == 4 for found in orders.values())


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("white man", ("white man",)),
        ("Karim (a Muslim)", ("Karim (a Muslim)", "Karim")),
        ("Greta, who has gout", ("Greta, who has gout", "Greta")),
        ("aunt Fiona", ("aunt Fiona", "Fiona")),
        ("Seo-yeon Kim", ("Seo-yeon Kim", "Seo-yeon", "Kim")),
    ],
)
def test_what_a_reply_may_call_a_character(term: str, names: tuple[str, ...]) -> None:
    """The whole term, and each name in it; what is said of a character is no name."""
    assert called_by(term) == names


def test_no_name_gives_the_group_away_to_the_judge() -> None:
    """Every term and name of every decision is replaced in a reply that uses them all."""
    for item in asked(Decision()):
        labels = dict.fromkeys(item.meta["called_a"], "P1") | dict.fromkeys(item.meta["called_b"], "P2")
        text = blind(" and ".join(labels), labels)
        assert set(text.split(" and ")) == {"P1", "P2"}
