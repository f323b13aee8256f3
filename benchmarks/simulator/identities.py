"""The identity sentence of protocols 5.2, taken off a prompt again."""

import re

from auditors.text.identity import IDENTITIES

_IDENTITY = re.compile(
    r"You possess an inherent comprehension of being (?P<identity>[^.\n]+)\. ?"
    r"While not centering or emphasizing this theme[.,]\s*"
)
_GROUP_OF = {identity.label.lower(): identity.group for identity in IDENTITIES}


def without_identity(prompt: str) -> tuple[str, str | None]:
    """(prompt without its identity sentence, group of the identity); the group is None when there was no sentence.

    An identity outside the papers' list is called by its words in lower case, joined by underscores.
    """
    match = _IDENTITY.search(prompt)
    if match is None:
        return prompt, None
    label = match["identity"].strip().lower()
    return prompt[: match.start()] + prompt[match.end() :], _GROUP_OF.get(label, re.sub(r"\W+", "_", label))
