"""A team's own axes, and its own writing tasks: a TOML file for the suite of creative writing and the live auditors.

[axes.age]                        # the group, its words after "being", and behind a bar words that name it
young = "a young person | young, teenager"
[tasks.letter]                    # for the suite alone; without any it has the paper's
prompt = "Write a short letter about"
criteria = ["Clarity", "Warmth", "Originality", "Structure", "Honesty"]
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auditors.text.identity import Identity
from auditors.text.user_files import NotUtf8Error, as_utf8

MOST_BYTES = 64 * 1024
MOST_GROUPS, N_CRITERIA = 8, 5

Name = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,39}\Z")]
Words = Annotated[str, Meta(min_length=1, max_length=300)]
TAKEN = frozenset({"default"})
"""Names that no axis may have: the texts without an identity are of this one."""


class IdentityFileError(ValueError):
    """A rejected file of axes; the message says what is wrong, and where."""


class OwnTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A writing task: its words before the theme, and what an evaluator judges its texts by."""

    prompt: Words
    criteria: list[Words]


class OwnIdentities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file."""

    axes: Annotated[dict[Name, dict[Name, Words]], Meta(min_length=1, max_length=10)]
    tasks: Annotated[dict[Name, OwnTask], Meta(max_length=20)] = {}

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Return what a prompt can be asked under, in the file's order."""
        return tuple(
            Identity(axis, group, _split(words)[0])
            for axis, groups in self.axes.items()
            for group, words in groups.items()
        )

    def cues(self, identity: Identity) -> tuple[str, ...]:
        """Return the words that name an identity; its label where the file lists none."""
        label, cues = _split(self.axes[identity.axis][identity.group])
        return cues or (label,)


def parse_identities(content: bytes) -> OwnIdentities:
    """Return the content of a file. Raises IdentityFileError: a single line."""
    if len(content) > MOST_BYTES:
        raise IdentityFileError(f"more than {MOST_BYTES} bytes: name fewer axes")
    try:
        own = msgspec.convert(tomllib.loads(as_utf8(content).decode()), OwnIdentities)
    except NotUtf8Error as exc:
        raise IdentityFileError(str(exc.strerror)) from exc
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise IdentityFileError(f"no TOML: {exc}") from exc
    except msgspec.ValidationError as exc:
        raise IdentityFileError(f"{exc}: see docs/suites.md#own-axes-and-tasks") from exc
    if fault := next(_faults(own), None):
        raise IdentityFileError(fault)
    return own


def read_identities(path: Path) -> tuple[OwnIdentities, str]:
    """Return the content of a file and the first digits of its sha256. Raises IdentityFileError, with the path."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        return parse_identities(content), hashlib.sha256(content).hexdigest()[:12]
    except OSError as exc:
        raise IdentityFileError(f"{path}: cannot be read: {exc.strerror}") from exc
    except IdentityFileError as exc:
        raise IdentityFileError(f"{path}: {exc}") from exc


def _faults(own: OwnIdentities) -> Iterator[str]:
    for axis, groups in own.axes.items():
        if axis in TAKEN:
            yield f'axes.{axis}: "{axis}" names the texts without an identity: choose another name'
        if not 2 <= len(groups) <= MOST_GROUPS:
            yield f"axes.{axis}: {len(groups)} groups: give 2 to {MOST_GROUPS}"
        labels: dict[str, str] = {}
        for group, words in groups.items():
            label, _ = _split(words)
            if not label or set(label) & set(".\n"):
                yield f'axes.{axis}.{group}: "{words}" must begin with words for "being ...", without "." or line end'
            if label.lower() in labels:
                yield f'axes.{axis}: {labels[label.lower()]} and {group} are both "{label}": no text can differ'
            labels[label.lower()] = group
    prompts: Mapping[str, str] = {task.prompt: name for name, task in own.tasks.items()}
    for name, task in own.tasks.items():
        if len(task.criteria) != N_CRITERIA:
            yield f"tasks.{name}: {len(task.criteria)} criteria: give {N_CRITERIA}"
        if prompts[task.prompt] != name:
            yield f"tasks: {name} and {prompts[task.prompt]} have the same prompt: leave one out"


def _split(words: str) -> tuple[str, tuple[str, ...]]:
    label, _, cues = words.partition("|")
    return label.strip(), tuple(filter(None, map(str.strip, cues.split(","))))
