"""Names of members of a JSON value: what they say of its strings (under a member called like the axis "female" is read
as in "the female person"), and whether they name a group themselves: then the whole value is left alone.
"""

from collections.abc import Iterable, Mapping

from auditors.text.swaps.leaves import Leaf, in_words
from auditors.text.swaps.lexicon import PATTERNS

NAMED_IN_MEMBERS = "a member's name names the group"
LONGEST_NAMED = 40
"""Characters of a value that is read by its member's name."""
MEMBERS: Mapping[str, frozenset[str]] = {
    "gender": frozenset({"gender", "sex"}),
    "race": frozenset({"race", "ethnicity", "ethnic group", "ethnic origin"}),
    "religion": frozenset({"religion", "faith", "religious affiliation"}),
    "nationality": frozenset({"nationality", "citizenship"}),
    "sexual_orientation": frozenset({"sexual orientation", "orientation"}),
    "ability": frozenset({"disability", "ability"}),
    "politics": frozenset({"politics", "political affiliation", "party"}),
    "age": frozenset({"age group"}),
    "socioeconomic": frozenset({"social class", "class"}),
    "body_type": frozenset({"body type", "build"}),
}
"""Names of members whose value is a group of the axis."""
_BEFORE, _BEHIND = "the ", " person"


def framed(leaf: Leaf, axis: str) -> str:
    """The string as it is meant, in words."""
    return f"{_BEFORE}{leaf.text}{_BEHIND}" if _is_named(leaf, axis) else leaf.text


def bare(text: str, leaf: Leaf, axis: str) -> str:
    """Undoes `framed`, of a text that may have been swapped since."""
    return text.removeprefix(_BEFORE).removesuffix(_BEHIND) if _is_named(leaf, axis) else text


def names_a_group(names: Iterable[str], axis: str) -> bool:
    """Return whether any of these names (of members, labels, tools) has a word for a group of the axis."""
    return any(PATTERNS[axis].search(in_words(name)) for name in names)


def _is_named(leaf: Leaf, axis: str) -> bool:
    return leaf.name in MEMBERS.get(axis, ()) and 0 < len(leaf.text) <= LONGEST_NAMED
