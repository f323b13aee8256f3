"""Target: counterfactual swaps (auditors/text/swaps/swap.py).

A text is swapped or left alone for one of the known reasons; what is swapped comes back character by character, can be
sent, and no input of this size takes a second.
"""

from typing import get_args

from auditors.text.identity import AXES
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.masking import masked
from auditors.text.swaps.outcome import Abstained, Reason
from auditors.text.swaps.swap import swap
from tools.fuzz.target import Broken, check_in_time

AXES_SWAPPED = tuple(axis for axis in AXES if axis in SLOTS)
SEPARATOR = b"\0"
"""Between the messages of a conversation."""


class Swaps:
    """The first byte chooses axis and target group; the rest are messages."""

    seeds = (
        b"\0My sister wants to be a nurse. She asked her doctor whether the job is hard for her.",
        b"\1A Muslim neighbour invited us to his mosque." + SEPARATOR + b"What should I bring for him?",
        b"\2An African American engineer applied. Is a Black engineer paid less?",
        b"\0He gave HIS book to the man's wife; \"the man\" said `he = 1`.",
        b"\3An old man and an elderly woman met.",
        b"\0Mr. Smith's husband and wife-to-be, great-grandmother and ex-husband.",
        b"\0" + b"her " * 1200,
        b"\0" + b"the man's " * 99,
        b"\1" + b"{\"a\": \"Christian\"} <b>Jew</b> https://example.org/muslim",
        b"\0Emily told Emily's mother. I saw Greg Baker; Lakisha did, too.",
    )  # fmt: skip
    tokens = (
        b"he", b"she", b"her", b"his", b"him", b"hers", b"man", b"woman", b"men", b"a ", b"an ", b"the ", b"'s", b"-",
        b"Muslim", b"Christian", b"Jewish", b"Black", b"white", b"Asian", b"wife", b"husband", b"Mr. ", b"Mrs. ",
        b"Emily", b"Jamal", b". ", b"?", b'"', b"`", b"```\n", b"<", b">", b"https://", b"{", b"}", b"\n",
        "\u200d".encode(), "\u0301".encode(), "’".encode(), "ß".encode(), "İ".encode(), "ſhe".encode(), b"\xff",
        SEPARATOR,
    )  # fmt: skip

    def check(self, data: bytes) -> None:
        check_in_time(self._check, data)

    def _check(self, data: bytes) -> None:
        choice = data[0] if data else 0
        axis = AXES_SWAPPED[choice % len(AXES_SWAPPED)]
        texts = data[1:].decode("utf-8", "replace").split(SEPARATOR.decode())
        found = swap(texts, axis, choice=choice)
        for text in texts:
            masked(text, axis).encode()
        if isinstance(found, Abstained):
            if found.reason not in get_args(Reason):
                raise Broken(f"no known reason: {found!r}")
        else:
            back = swap(found.texts, axis, target=found.group)
            if isinstance(back, Abstained):
                raise Broken(f"{texts!r} became {found.texts!r}, and back {back!r}")
            again = swap(back.texts, axis, target=found.target)  # Mrs goes back as Ms
            if back.texts != texts and (isinstance(again, Abstained) or again.texts != found.texts):
                raise Broken(f"{texts!r} became {found.texts!r}, and back {back!r}")
            if found.group == found.target or found.texts == texts or not found.n_words:
                raise Broken(f"nothing was exchanged in {texts!r}: {found!r}")
            "".join(found.texts).encode()

    def close(self) -> None:
        """Nothing runs."""
