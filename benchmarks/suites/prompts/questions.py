"""A team's prompts as questions about groups, and why others are not asked; alike prompts share a cluster."""

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
    """Messages by group; the first is compared with each other group's."""
    cluster: str
    own_words: tuple[str, ...] = ()
    """Lower-case words that not every version has, where the file gave the versions: an answer may echo them."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """The questions from a file."""

    versions: list[Versions]
    left_out: Mapping[str, int]
    """Prompts, or swaps of theirs, that are not asked, by reason."""


def questions(prompts: Sequence[OwnPrompt], checkpoint: Callable[[], None]) -> Questions:
    """Every version of every prompt; the same for the same prompts. `checkpoint` is called before each."""
    all_versions: list[Versions] = []
    left_out = Counter[str]()
    seen = set[bytes]()
    for prompt in prompts:
        checkpoint()
        content = msgspec.json.encode(msgspec.structs.replace(prompt, name="", cluster=None, tags=()))
        if content in seen:
            left_out[SAME] += 1
            continue
        seen.add(content)
        added = _take_versions(prompt) if prompt.versions else _swapped(prompt)
        all_versions += added.versions
        left_out.update(added.left_out)
    return Questions(versions=all_versions, left_out=dict(sorted(left_out.items())))


def items(all_versions: Sequence[Versions]) -> Iterator[Item]:
    """The items of every prompt and axis, that of the first version before the others."""
    for versions in all_versions:
        first = f"{versions.prompt.name}/{versions.axis}/{next(iter(versions.asked))}"
        for group, messages in versions.asked.items():
            item_id = f"{versions.prompt.name}/{versions.axis}/{group}"
            meta: dict[str, Any] = {"prompt": versions.prompt.name}
            if item_id != first:
                meta["compared_with"] = first
            if versions.prompt.tags:
                meta["tags"] = versions.prompt.tags
            if versions.own_words:
                meta["own_words"] = versions.own_words
            yield Item(
                item_id=item_id,
                messages=messages,
                axis=versions.axis,
                groups=(group,),
                cluster=versions.cluster,
                set_id=f"{versions.prompt.name}/{versions.axis}",
                meta=meta,
            )


def _take_versions(prompt: OwnPrompt) -> Questions:
    words = [set(_words(messages)) for messages in prompt.versions.values()]
    own = set[str]().union(*words) - words[0].intersection(*words)
    versions = Versions(
        prompt=prompt,
        axis=prompt.axis or "",
        asked=prompt.versions,
        cluster=_cluster(prompt),
        own_words=tuple(sorted(own)),
    )
    return Questions(versions=[versions], left_out={})


def _swapped(prompt: OwnPrompt) -> Questions:
    """Return the versions on every axis that the prompt names a group of; if there is none, the plainest reason."""
    all_versions: list[Versions] = []
    left_out, reasons = Counter[str](), list[Abstained]()
    for axis in [prompt.axis] if prompt.axis else SWAPPED:
        messages_by_group: dict[str, tuple[Message, ...]] = {}
        for other in _about_others(prompt, axis):
            if isinstance(other, Swapped):
                messages_by_group.setdefault(other.group, prompt.messages)
                messages_by_group[other.target] = _with_texts(prompt.messages, other.texts)
            elif prompt.groups and other.group is not None:
                left_out[f"not swapped for a group: {other.reason}"] += 1
            else:
                reasons.append(other)
        if messages_by_group:
            all_versions.append(Versions(prompt=prompt, axis=axis, asked=messages_by_group, cluster=_cluster(prompt)))
    if not all_versions and not left_out:
        left_out[_in_words(reasons) if reasons else NO_OTHER] += 1
    return Questions(versions=all_versions, left_out=left_out)


def _about_others(prompt: OwnPrompt, axis: str) -> Iterator[Swapped | Abstained]:
    """Yield a swap for each group asked for; if none is given, for a group that the prompt itself decides."""
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
    text = "\n".join(message.content for message in prompt.messages)
    for axis in SLOTS:
        text = masked(text, axis)
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _words(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        yield from (word.strip(MARKS).lower() for word in message.content.split())


MARKS = ".,;:!?\"'()[]{}…“”„«»‘’¿¡"


def order_of(axis: str, group: str) -> int:
    """Place of a group in its axis: of a pair, the earlier one is `group` and the later one `reference`."""
    return [axis_group.name for axis_group in AXES[axis]].index(group)
