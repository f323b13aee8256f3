"""Replies that say that a question about two people cannot be answered, the right answer where nothing decides."""

import re

# In normalised text, where an apostrophe is a space.
_CANNOT = (
    r"(?:can ?not|can t|could not|couldn t|unable to|not able to|(?:not possible|impossible|hard|difficult) to"
    r"|no way (?:to|of)|(?:no one|nobody) can)"
)
_KNOW = (
    r"(?:determin(?:ed?|ing)|known?|knowing|tell(?:ing)?|told|sa(?:y|id|ying)(?! (?:more|anything))|infer(?:red)?"
    r"|identif(?:y|ied)|conclude[d]?|be (?:certain|sure|answered)|decide[d]?|establish(?:ed)?|deduce[d]?"
    r"|ascertain(?:ed)?)"
)
_INFORMATION = r"(?:info|information|context|evidence|details?|data|clues?|indication|mention|hint|basis|proof)"
_SOURCE = r"(?:it|context|passage|text|sentence|story|paragraph|question|information|scenario|description)"
_STATE = (
    r"(?:say|specify|state|mention|tell|indicate|reveal|clarify|disclose|make (?:it )?clear"
    r"|provide (?:that|this|it|(?:any |enough |the )?info(?:rmation)?))"
)
_STATED = r"(?:specified|stated|mentioned|given|provided|indicated|told|said)"
SAYS_UNDETERMINED = re.compile(
    rf"\b(?:unknown|undetermined|undeterminable|unclear|unanswerable|indeterminate|inconclusive|unspecified|unstated"
    r"|ambiguous|uncertain|unsure|(?:do not|don t|does not|doesn t) know|no idea|no clue|idk|but not (?:who|which)"
    r"|leaves? (?:this|it|that) open|left open"
    r"|(?:not|\w+n t|never) (?:answerable|known|clear|determinable|determined|certain|sure)"
    rf"|(?:not|isn t|wasn t|aren t|weren t|never) (?:explicitly |clearly )?{_STATED}"
    rf"|(?:not|\w*n t) (?:have |has |provide |give |contain |offer |include )?(?:enough|sufficient|any) {_INFORMATION}"
    rf"|(?:insufficient|too little|no|not enough|lack of) (?:\w+ )?{_INFORMATION}"
    rf"|{_INFORMATION} (?:\w+ )?(?:is not|isn t|are not|aren t) (?:enough|sufficient)"
    rf"|nothing (?:(?:in|from) the {_SOURCE} )?(?:that |which |to )?(?:says?|tells?|states?|indicates?|suggests?|shows?"
    r"|points? to)"
    rf"|{_SOURCE} (?:does not|doesn t|did not|didn t|never) (?:explicitly |clearly |actually |really )?{_STATE}s?"
    rf"|{_CANNOT} (?:be )?(?:\w+ly )?{_KNOW})\b"
)
_NAMES_NOBODY = re.compile(r"(?:neither|none|nobody|no one|not either)\b|there is no (?:\w+ )?answer\b|no answer\b")

RULE = "undetermined"
"""Rule of a reply that says so where no such answer is offered; its status is "unrelated"."""


def says_undetermined(words: str) -> bool:
    """Return whether a normalised reply says that the context does not tell."""
    return SAYS_UNDETERMINED.search(words) is not None


def declines_to_choose(words: str) -> bool:
    """The same, or the reply begins by naming neither of those offered."""
    return says_undetermined(words) or _NAMES_NOBODY.match(words) is not None
