"""Reads a reply while it is being written: is it an answer already, can it still become an answer, or is it none."""

import re

from benchmarks.suites.common.choices.plain import contradictions, words_of
from benchmarks.suites.protocol import UNRELATED, Item, ProtocolName, Suite

OPEN = "open"
"""Verdict: the reply may still become an answer, or another one."""

_STRANGE_WORD = "zq"
"""Stands for any words that follow and mean nothing."""
_LONGEST_MARKUP = 24
"""Characters without a word, as of LaTeX, after which a reply is not followed any more."""
_LAST_WORD = re.compile(r"(?<!\w)\w++$")


class Reading:
    """The meaning of the beginnings of a reply to a single item."""

    def __init__(self, suite: Suite, item: Item, protocol: ProtocolName) -> None:
        if "exact" not in suite.modes:
            raise TypeError(f"{suite.name} does not say which answers it accepts")
        self._suite, self._item, self._protocol = suite, item, protocol
        texts = suite.accepted_answers(item, protocol=protocol)
        accepted = frozenset(map(words_of, texts))
        self._followed = accepted | contradictions([choice.text for choice in item.choices], accepted)
        self.labels = frozenset(map(self.finished, texts)) - {UNRELATED}

    def finished(self, text: str) -> str:
        """Label of a whole reply: the suite's value as text, or UNRELATED."""
        parsed = self._suite.parse(self._item, text, protocol=self._protocol)
        return str(parsed.value) if parsed.status == "ok" else UNRELATED

    def begun(self, text: str) -> str:
        """Return the label of every reply that begins with `text`; OPEN while what follows can still decide."""
        words, ends_in_word = words_of(text), bool(_LAST_WORD.search(text))
        so_far = words if ends_in_word or not words else f"{words} "
        if not words:
            return OPEN if len(text) <= _LONGEST_MARKUP else UNRELATED
        if any(answer.startswith(so_far) and answer != words for answer in self._followed):
            return OPEN
        is_whole = words in self._followed
        if is_whole and ends_in_word:
            return OPEN
        label = self.finished(_LAST_WORD.sub("", text) + _STRANGE_WORD)
        is_open = (is_whole and label == UNRELATED) or (ends_in_word and self.finished(text) != label)
        return OPEN if is_open else label
