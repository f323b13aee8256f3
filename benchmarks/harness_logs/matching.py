"""Which item a question of another harness is: by what it says, never by its place."""

from collections import defaultdict
from collections.abc import Iterable

from benchmarks.harness_logs.log import Answered
from benchmarks.suites.capabilities import Content


class Matcher:
    """The items of a suite by their texts."""

    def __init__(self, contents: Iterable[Content]) -> None:
        self._by_passage: defaultdict[str, list[Content]] = defaultdict(list)
        self._by_answers: defaultdict[frozenset[str], list[Content]] = defaultdict(list)
        for one in contents:
            known = Content(item_id=one.item_id, passages=_all(one.passages), answers=_all(one.answers))
            self._by_passage[known.passages[0]].append(known)
            self._by_answers[frozenset(known.answers)].append(known)

    def found(self, answered: Answered) -> list[str]:
        """Ids of the items that say the same: one, or none, or several that cannot be told apart."""
        return self._of_fields(answered) if answered.fields else self._of_question(answered)

    def _of_fields(self, answered: Answered) -> list[str]:
        texts = set(_all(answered.fields))
        candidates = (one for text in texts for one in self._by_passage.get(text, ()))
        return [one.item_id for one in candidates if texts.issuperset((*one.passages, *one.answers))]

    def _of_question(self, answered: Answered) -> list[str]:
        """The question holds all passages of the item; of several the one with the longest, since one may continue
        another.
        """
        question = _plain(answered.question)
        same = self._by_answers.get(frozenset(_all(answered.options)), ())
        held = [one for one in same if all(passage in question for passage in one.passages)]
        longest = max((_length(one) for one in held), default=0)
        return [one.item_id for one in held if _length(one) == longest]


def _length(one: Content) -> int:
    return sum(map(len, one.passages))


def _all(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_plain, texts))


def _plain(text: str) -> str:
    return " ".join(text.split())
