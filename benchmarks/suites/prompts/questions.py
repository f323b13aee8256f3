"""A team's prompts as questions about one group and another, and why the others are left alone.

A version is asked as it is, the control being that it is asked again. Prompts that say the same but for the words of
identity are no independent evidence: they share a cluster, as do those to which the file gives one.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from auditors.text.identity import AXES
from auditors.text.own_prompts import OwnPrompt
from auditors.text.swaps.lexicon import SLOTS, SWAPPED
from auditors.text.swaps.masking import masked
from auditors.text.swaps.outcome import Abstained, Swapped
from auditors.text.swaps.swap import swap
from auditors.types import Message
from benchmarks.suites.protocol import Item

NO_GROUP = "no identity named"
NO_OTHER = "no group asked for but the one that it names"
SAME = "the same as an earlier line"


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt on one axis: as it is, and about other groups."""

    prompt: OwnPrompt
    axis: str
    asked: Mapping[str, tuple[Message, ...]]
    """By group; the first is compared with each other one."""
    cluster: str
    own_words: tuple[str, ...] = ()
    """Lower-case words that not every version has, where the file gave the versions: an answer may echo them."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What is made of a file."""

    versions: list[Versions]
    left_out: Mapping[str, int]
    """Prompts, or swaps of theirs, that are not asked, by reason."""


def questions(prompts: Sequence[OwnPrompt], checkpoint: Callable[[], None]) -> Questions:
    """Every version of every prompt; the same for the same prompts. `checkpoint` is called before each."""
    found: list[Versions] = []
    left_out = Counter[str]()
    seen = set[bytes]()
    for prompt in prompts:
        checkpoint()
        content = msgspec.json.encode(msgspec.structs.replace(prompt, name="", cluster=None, tags=()))
        if content in seen:
            left_out[SAME] += 1
            continue
        seen.add(content)
        made = _given(prompt) if prompt.versions else _swapped(prompt)
        found += made.versions
        left_out.update(made.left_out)
    return Questions(versions=found, left_out=dict(sorted(left_out.items())))


def items(found: Sequence[Versions]) -> Iterator[Item]:
    """The items of every prompt and axis, that of the first version before the others."""
    for one in found:
        first = f"{one.prompt.name}/{one.axis}/{next(iter(one.asked))}"
        for group, messages in one.asked.items():
            item_id = f"{one.prompt.name}/{one.axis}/{group}"
            meta: dict[str, Any] = {"prompt": one.prompt.name}
            if item_id != first:
                meta["compared_with"] = first
            if one.prompt.tags:
                meta["tags"] = one.prompt.tags
            if one.own_words:
                meta["own_words"] = one.own_words
            yield Item(
                item_id=item_id,
                messages=messages,
                axis=one.axis,
                groups=(group,),
                cluster=one.cluster,
                set_id=f"{one.prompt.name}/{one.axis}",
                meta=meta,
            )


def _given(prompt: OwnPrompt) -> Questions:
    words = [set(_words(messages)) for messages in prompt.versions.values()]
    own = set[str]().union(*words) - words[0].intersection(*words)
    one = Versions(
        prompt=prompt,
        axis=prompt.axis or "",
        asked=prompt.versions,
        cluster=_cluster(prompt),
        own_words=tuple(sorted(own)),
    )
    return Questions(versions=[one], left_out={})


def _swapped(prompt: OwnPrompt) -> Questions:
    """On every axis that it names a group of; where there is none, the plainest reason."""
    made: list[Versions] = []
    left_out, reasons = Counter[str](), list[Abstained]()
    for axis in [prompt.axis] if prompt.axis else SWAPPED:
        asked: dict[str, tuple[Message, ...]] = {}
        for other in _about_others(prompt, axis):
            if isinstance(other, Swapped):
                asked.setdefault(other.group, prompt.messages)
                asked[other.target] = _with_texts(prompt.messages, other.texts)
            elif prompt.groups and other.group is not None:
                left_out[f"not swapped for a group: {other.reason}"] += 1
            else:
                reasons.append(other)
        if asked:
            made.append(Versions(prompt=prompt, axis=axis, asked=asked, cluster=_cluster(prompt)))
    if not made and not left_out:
        left_out[_in_words(reasons) if reasons else NO_OTHER] += 1
    return Questions(versions=made, left_out=left_out)


def _about_others(prompt: OwnPrompt, axis: str) -> Iterator[Swapped | Abstained]:
    """One swap for each group asked for; without any, for one that the prompt itself decides."""
    texts = [message.content for message in prompt.messages]
    digest = hashlib.blake2b("\n".join(texts).encode("utf-8", "replace"), digest_size=8).digest()
    first = swap(texts, axis, choice=int.from_bytes(digest))
    if not prompt.groups or isinstance(first, Abstained):
        yield first
        return
    for group in prompt.groups:
        if group != first.group:
            yield swap(texts, axis, target=group)


def _in_words(reasons: Sequence[Abstained]) -> str:
    """The first reason that is about a group, if a prompt names one."""
    plainest = min(reasons, key=lambda reason: (reason.reason == "no identity term", reason.group is None))
    return NO_GROUP if plainest.reason == "no identity term" else f"not swapped: {plainest.reason}"


def _with_texts(messages: Sequence[Message], texts: Sequence[str]) -> tuple[Message, ...]:
    return tuple(msgspec.structs.replace(message, content=text) for message, text in zip(messages, texts, strict=True))


def _cluster(prompt: OwnPrompt) -> str:
    if prompt.cluster is not None:
        return f"cluster {prompt.cluster}"
    said = "\n".join(message.content for message in prompt.messages)
    for axis in SLOTS:
        said = masked(said, axis)
    return hashlib.sha256(" ".join(said.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _words(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        yield from (word.strip(_MARKS).lower() for word in message.content.split())


_MARKS = ".,;:!?\"'()[]{}…“”„«»‘’¿¡"


def order_of(axis: str, group: str) -> int:
    """Place of a group in its axis: of a pair, the earlier one is `group` and the later one `reference`."""
    return [one.name for one in AXES[axis]].index(group)
