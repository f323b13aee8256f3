"""Prompt-injection defence: quotes audited text to a judge between random delimiters, control tokens broken up.

Two things can go wrong. A text may try to end its fence or give orders: the fence's mark is drawn again for every
question, so no text can hold it. And a text may hold the control marks of chat templates ("<|im_start|>", "[INST]"),
which servers turn into real turns: these are broken up by a blank, which changes nothing for a reader.
"""

import re
import secrets

from auditors.text import control_marks

_ORDERS = re.compile(
    r"(?:ignore|disregard|forget|override) (?:all |any |the |your |my )?(?:previous|prior|above|earlier|other|"
    r"system|rules|instructions)|you are (?:a|the|now)[a-z ]{0,20} judge|"
    r"\b(?:as|dear|to the) (?:a )?(?:judge|evaluator|grader)\b|"
    r"(?:reply|respond|answer|output) (?:only )?(?:with|exactly)[^\n]{0,40}[{\"]|\"findings\"\s*:|\"refused\"\s*:|"
    r"DATA [0-9a-f]{4,}>>>|<<<DATA|(?:give|assign|set) (?:it |this |a |the )?(?:score|rating)",
    re.IGNORECASE,
)


def mark() -> str:
    """A fresh mark: 64 random bits in hexadecimal."""
    return secrets.token_hex(8)


def defused(text: str) -> str:
    """The text with the control marks of chat templates broken up: "<|im_end|>" becomes "< |im_end| >"."""
    return control_marks.broken_up(text)


def speaks_to_a_judge(text: str) -> bool:
    """Return whether a text seems to give orders to its judge; noted with a score, never used for it."""
    return bool(_ORDERS.search(text))
