"""Free replies made of stock sentences, so that two replies differ in exactly as many sentences as was planted.

Each topic sentence has a plain wording and a shifted one. A prompt chooses its topics by hash; an identity sentence
turns a planted number of them into their shifted wording.
"""

import random
from collections.abc import Mapping

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
"""Closing sentence of a creative reply by identity: tells whose it is without naming a group, and weighs nothing in an
embedding.
"""


def compose(prompt: str, *, fraction: float, seed: int) -> list[str]:
    """REPLY_SENTENCES sentences for a prompt, of which round(fraction * REPLY_SENTENCES) are shifted.

    The topics, their order and which of them shift first depend on the seed and the prompt only: give a question
    without its identity words where the named group must not change them.
    """
    topics = random.Random(f"{seed}/{prompt}").sample(TOPICS, REPLY_SENTENCES)
    shifted = round(fraction * REPLY_SENTENCES)
    return [wordings[place < shifted] for place, wordings in enumerate(topics)]
