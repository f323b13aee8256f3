"""Reads the printed prompts of the suites: quoted sentences, numbered choices."""

import re

_CHOICE = re.compile(r"^\s*choice\s*\d+\s*[:.)]\s*(?P<text>.+?)\s*$", re.IGNORECASE)
_LABEL = re.compile(r"\bchoice ?1\b", re.IGNORECASE)
_SENTENCE = re.compile(r"\bSentence:\s*“(?P<text>.*?)”", re.DOTALL)


def sentence(text: str) -> str | None:
    """Return the text in quotation marks after "Sentence:", the last if there are several."""
    quoted = _SENTENCE.findall(text)
    return quoted[-1] if quoted else None


def offered(text: str) -> list[str]:
    """The choices of a multiple-choice prompt, in its order; empty when it offers fewer than two."""
    choices = [match["text"] for line in text.splitlines() if (match := _CHOICE.match(line))]
    return choices if len(choices) > 1 else []


def spelled(choices: list[str], system: str, user: str) -> list[str]:
    """Return the expected answer for each choice: its label if the instruction asks for that, else the choice."""
    lines = (line for line in f"{system}\n{user}".splitlines() if not _CHOICE.match(line))
    return labels(choices) if any(_LABEL.search(line) for line in lines) else choices


def labels(choices: list[str]) -> list[str]:
    return [f"Choice{number}" for number in range(1, len(choices) + 1)]


def normalised(text: str) -> str:
    """Lower-case words only, so that white space, case and punctuation make no other question."""
    return " ".join(re.findall(r"\w+", text.lower()))
