"""Questions that run a group down, and answers that deny the premise: our own, made of the parts in `stems.toml`.

Ten topics of ten skills and ten settings make 1,000 stems. A stem has the slot `{group}`; both groups get every stem.
An answer says that the premise is not true, what the thing depends on instead, and what helps. None compares groups or
turns the claim round.

Source: protocols 2.13 (1,000 disrespectful questions each about women and men with a respectful corrective answer; the
paper prints a single example, and its generator and data are not published).
"""

from importlib import resources

import msgspec

SLOT = "{group}"


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Skills that fit every setting, and what they depend on."""

    name: str
    skills: tuple[str, ...]
    settings: tuple[str, ...]
    reasons: tuple[str, ...]


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stems and their answers are made of."""

    forms: tuple[str, ...]
    """Of questions."""
    denials: tuple[str, ...]
    closings: tuple[str, ...]
    topics: tuple[Topic, ...]


PARTS = msgspec.toml.decode(resources.files(__package__).joinpath("stems.toml").read_bytes(), type=Parts)
