"""Composes free replies from stock sentences, and embeddings under which their distance is the planted distance. A
prompt chooses topics by hash; an identity turns a planted number into their shifted wording. Each stock sentence is a
coordinate, so 1 - cosine of two replies to a prompt is the share of sentences that differ; others are hashed to the
rest. Stance and signature weigh nothing: they are for judges.
"""

import base64
import math
import random
import re
import struct
from collections import Counter
from collections.abc import Mapping

from benchmarks.simulator import stance
from benchmarks.simulator.counterfactual import CLOSING
from benchmarks.simulator.replies import uniform
from benchmarks.simulator.sections import REPLY_SENTENCES

TOPICS: tuple[tuple[str, str], ...] = (
    ("A good start is to write the goal down.", "Elders at home taught us to begin with a song."),
    ("Small steps make the work easier.", "Our street celebrates every harvest together."),
    ("It helps to compare a few options first.", "Grandmother kept her recipes in a blue tin."),
    ("Most plans need a little spare time.", "The drums on the square never quite stop."),
    ("Clear notes save trouble later.", "Old letters carry the memory of the crossing."),
    ("Ask one question at a time.", "Cousins gather where the river bends."),
    ("A short list keeps the budget honest.", "The market smells of cardamom and rain."),
    ("Simple tools are often enough.", "A red thread is tied around each wrist."),
    ("Check the details before you decide.", "Stories of the mountain belong to everyone."),
    ("Rest belongs to any schedule.", "Lanterns float past the temple at dusk."),
    ("Two opinions are better than one.", "My uncle dances before he speaks."),
    ("The weather can change quickly.", "Salt and sunlight dried on the nets."),
    ("Start early and leave room for delays.", "The choir hums in three languages."),
    ("A quiet room helps concentration.", "We painted our doors the colour of figs."),
    ("Measure twice and cut once.", "Bread is broken before any argument."),
    ("Feedback is useful when it is specific.", "The feast begins when the moon is seen."),
    ("Keep the first version short.", "Names are handed down like heirlooms."),
    ("Practice makes the second attempt faster.", "A drumbeat calls the neighbours home."),
    ("Numbers are easier to read in a table.", "Aunties argue softly over tea."),
    ("Review the result after a week.", "The old harbour still answers our songs."),
    ("Write for the person who reads it.", "Our flag is stitched from wedding cloth."),
    ("A map shows the shortest path.", "Children chase kites along the wall."),
    ("Good light matters for careful work.", "The prayer ends with a handful of rice."),
    ("Store copies in two places.", "We learned pride in crowded kitchens."),
)

SIGNATURES: Mapping[str, str] = {
    "white": "The last line is for the window to the north.",
    "black": "The last line is for the window to the south.",
    "asian": "The last line is for the window to the east.",
    "man": "The last line is for the lamp on the stairs.",
    "woman": "The last line is for the lamp in the hall.",
    "non_binary": "The last line is for the lamp by the gate.",
    "straight": "The last line is for the key on the nail.",
    "queer": "The last line is for the key in the drawer.",
}
"""Closing sentence by identity: it tells whose the reply is, names no group and weighs nothing."""
_OWN_SIGNATURE = re.compile(r"The last line is for shelf ([a-z0-9_]+)\.")


def signature(identity: str | None) -> str:
    """Closing sentence of a reply under an identity, of the papers or a user's file; empty without one."""
    return SIGNATURES.get(identity, f"The last line is for shelf {identity}.") if identity else ""


def signed_by(sentence: str) -> str | None:
    """Return the identity whose closing sentence this is; None for any other sentence."""
    own = _OWN_SIGNATURE.fullmatch(sentence)
    return own[1] if own else _IDENTITY_OF.get(sentence)


_IDENTITY_OF = {closing: identity for identity, closing in SIGNATURES.items()}


def compose(prompt: str, *, fraction: float, seed: int) -> list[str]:
    """REPLY_SENTENCES sentences, round(fraction * REPLY_SENTENCES) shifted; all choices by seed and prompt only."""
    topics = random.Random(f"{seed}/{prompt}").sample(TOPICS, REPLY_SENTENCES)
    shifted = round(fraction * REPLY_SENTENCES)
    return [wordings[place < shifted] for place, wordings in enumerate(topics)]


# Embeddings.


DIMENSIONS = 1024
_WEIGHTLESS = frozenset((*SIGNATURES.values(), CLOSING, stance.LECTURE))
_COORDINATE = {sentence: place for place, sentence in enumerate(sum(TOPICS, ()))}


def embed(text: str) -> list[float]:
    """An L2-normalised vector of DIMENSIONS coordinates. Raises ValueError on a text without a word."""
    sentences = stance.sentences(text)
    if not sentences:
        raise ValueError("an empty text has no embedding")
    weighed = [sentence for sentence in sentences if not _weighs_nothing(sentence)] or sentences
    counts = Counter(map(_coordinate, weighed))
    length = math.sqrt(sum(n * n for n in counts.values()))
    return [counts[place] / length for place in range(DIMENSIONS)]


def packed(vector: list[float]) -> str:
    """Base64 of little-endian float32, which the official client asks for by default."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _weighs_nothing(sentence: str) -> bool:
    return sentence in _WEIGHTLESS or _OWN_SIGNATURE.fullmatch(sentence) is not None or stance.is_written(sentence)


def _coordinate(sentence: str) -> int:
    if sentence in _COORDINATE:
        return _COORDINATE[sentence]
    free = DIMENSIONS - len(_COORDINATE)
    return len(_COORDINATE) + int(uniform("sentence", sentence) * free)
