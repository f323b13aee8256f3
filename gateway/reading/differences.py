"""Finds the places where two texts differ, word for word: in time nearly proportional to them, for any content.
Patience diff: words that occur once in both are where the texts meet; between them the same again; short parts are
compared in full. JSON is put in order first, so that blanks and the order of members are not a difference.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import msgspec

from auditors.text.json_fields import FieldsError, read_fields

MOST_PIECES = 300
"""Most pieces of a text: if there are more, all from its first difference to its last is a single piece."""
DEEPEST = 8
"""Times that what lies between two meetings is looked at again."""
MOST_PAIRS = 10_000
"""Words of a text times those of the other that are compared in full."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


class Piece(msgspec.Struct, frozen=True):
    """Part of a text; the text is all of them together."""

    text: str
    differs: bool = False
    """The other text has it not, or elsewhere."""


def differences(first: str, other: str) -> tuple[list[Piece], list[Piece]]:
    left, right = _TOKEN.findall(first), _TOKEN.findall(other)
    same_left, same_right = bytearray(len(left)), bytearray(len(right))
    for at, there in _meetings(left, right):
        same_left[at] = same_right[there] = True
    return _pieces(left, same_left), _pieces(right, same_right)


def in_order(text: str) -> str:
    """A JSON object or list with a member a line, by name; anything else, and JSON without one meaning, as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        read_fields(text, str)
    except FieldsError:
        return text
    return json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False)


def _meetings(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    waiting = [(0, len(left), 0, len(right), 0)]
    while waiting:
        a, a_end, b, b_end, depth = waiting.pop()
        while a < a_end and b < b_end and left[a] == right[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and left[a_end - 1] == right[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        if a == a_end or b == b_end:
            continue
        if (a_end - a) * (b_end - b) <= MOST_PAIRS:
            pairs += ((a + i, b + j) for i, j in _longest(left[a:a_end], right[b:b_end]))
            continue
        if depth == DEEPEST:
            continue
        for at, there in [*_anchors(left, right, a, a_end, b, b_end), (a_end, b_end)]:
            waiting.append((a, at, b, there, depth + 1))
            if at < a_end:
                pairs.append((at, there))
            a, b = at + 1, there + 1
    return pairs


def _anchors(
    left: Sequence[str], right: Sequence[str], a: int, a_end: int, b: int, b_end: int
) -> list[tuple[int, int]]:
    """Return, among the words that occur once in either part, the most that stand in the same order."""
    once_left, once_right = Counter(left[a:a_end]), Counter(right[b:b_end])
    places = {right[at]: at for at in range(b, b_end) if once_right[right[at]] == 1}
    shared = [(at, places[left[at]]) for at in range(a, a_end) if once_left[left[at]] == 1 and left[at] in places]
    ends: list[int] = []
    chains: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(shared):
        at = bisect_left(ends, there)
        before.append(chains[at - 1] if at else -1)
        ends[at : at + 1], chains[at : at + 1] = [there], [number]
    number, pairs = (chains[-1] if chains else -1), list[tuple[int, int]]()
    while number >= 0:
        pairs.append(shared[number])
        number = before[number]
    return pairs[::-1]


def _longest(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        row, below = lengths[i], lengths[i + 1]
        for j in reversed(range(len(right))):
            row[j] = below[j + 1] + 1 if left[i] == right[j] else max(below[j], row[j + 1])
    pairs, i, j = list[tuple[int, int]](), 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _pieces(tokens: Sequence[str], same: bytearray) -> list[Piece]:
    """Blanks between two differences belong to them."""
    for at in range(1, len(tokens) - 1):
        if same[at] and tokens[at].isspace() and not same[at - 1] and not same[at + 1]:
            same[at] = False
    runs = [
        (bool(is_same), [token for token, _ in run])
        for is_same, run in groupby(zip(tokens, same, strict=True), key=lambda pair: pair[1])
    ]
    if len(runs) > MOST_PIECES:
        first, last = same.index(0), same.rindex(0)
        parts = ((True, tokens[:first]), (False, tokens[first : last + 1]), (True, tokens[last + 1 :]))
        runs = [(is_same, list(part)) for is_same, part in parts if part]
    return [Piece("".join(part), not is_same) for is_same, part in runs]
