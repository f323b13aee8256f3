"""Wordings in which people and models name an option, read in the same way for every option of every suite."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from benchmarks.suites import registry
from benchmarks.suites.protocol import Item
from tests.support.benchmarks.scripted import plan

SUITES = ("bbq", "crows_pairs", "stereoset", "unqover")
"""Suites whose items have options; of WinoBias' pronouns see test_winobias."""
_PLAIN = """
{text} | {text}. | {text}! | **{text}** | *{text}* | `{text}` | “{text}”. | ({text}) | - {text} | > {text} |
## {text} | __{text}__ | {text}, because it fits best. | {text} because that is what the words suggest. |
{text} (this is a guess) | {text} - it fits. | {text}: it is the most natural one. | Answer: {text} |
**Answer:** {text} | Answer: **{text}** | answer = {text} | The answer is {text}. | The answer is: {text} |
The correct answer is {text} | The correct answer is: **{text}** | My answer is {text}. | Final answer: {text} |
The final answer is {text}. | The best choice is {text}. | The most appropriate answer here would be {text}. |
I would choose {text}. | I'd pick {text}. | I choose {text} | I would go with {text}. | I'd say {text}. |
I select: {text} | <answer>{text}</answer> | Sure! The answer is {text}. | Not {other}, so the answer is {text}. |
The answer is {text}, not {other}. | The answer is {text} rather than {other}. | {text} is the correct answer. |
{text} is correct. | {text} is the best choice here. | Response: {text} | Output: {text} | {text} it is. |
I'll take {text}. | It's got to be {text}. | My vote goes to {text}. | I guess {text}? | tbh {text} | I lean {text} |
{text} probably | Out of {text} and {other}, {text}. | The best fit is {text}. | I'd put {text}. |
Rather {text} than {other}. | {text} gets my vote. | I settled on {text}. | {text} ✅ |
I reckon {text}. | I've decided on {text}. | My money is on {text}. | {other} does not fit, {text} does. |
{other}... actually, scratch that. {text}. | {other}. No, wait. {text}. | {other}. I take that back. {text}. |
My first instinct was {other}. On reflection I change that to {text}. |
You might think {other} at first, but it is {text}. | Some would say {other}. I say {text}. | hands down {text} |
My first thought was {other}. I'd rather switch to {text}. | I suppose {text}. | {text} and not {other} |
Without hesitation: {text}. | {text} beats {other}. | {text} wins. | Not {other}; {text}. | {text} for me. |
{text} strikes me as the right one. | {text} all day long
"""
BY_TEXT = (
    *(" ".join(_PLAIN.split("\n")).strip().split(" | ")),
    '"{text}"',
    "{text}\n\nThis fits best.",
    "\\boxed{{{text}}}",
    "$\\boxed{{\\text{{{text}}}}}$",
    '{{"answer": "{text}"}}',
    '```json\n{{"answer": "{text}"}}\n```',
    '{{"reason": "it fits", "answer": "{text}"}}',
    "<think>It may be {other}. Or not.</think>\n{text}",
    "Let me think. {other} is possible at first sight.\nAnswer: {text}",
    "Reasoning: the words decide.\n\nTherefore, the answer is {text}.",
    "Sure, here is my answer:\n\n{text}",
    "{text}\n\nExplanation: {other} does not fit.",
    "{text}.\n\n{other} would be a guess.",
    "{text}\n{text}",
    "\n\n  {text}  \n",
)
_LABELS = """
{label} | {label}. | ({label}) | **{label}** | [{label}] | `{label}` | {label}. {text} | {label}) {text} |
({label}) {text} | {label}: {text} | {label} - {text} | {label} – {text} | **{label}. {text}** | **{label}**: {text} |
{label} ({text}) | {text} ({label}) | Answer: {label} | **Answer: {label}** | The answer is {label}. |
The correct answer is ({label}) {text}. | The correct answer is: {label}. {text} | I would choose {label}. |
I choose {label}, {text}. | \boxed{{{label}}} | {{"answer": "{label}"}} |
{{"answer": "{label}", "explanation": "{other} does not fit."}} | {label}, because {other} does not fit. |
{label}. {text}, it could be {other} | <think>{other}?</think>{label} | {label} is correct. |
Final answer: {label}. {text} | {label} it is | {label} probably | I'd go with {label}. | Response: {label} |
My answer would be {label} | I vote {label}. | {label} makes the most sense.
"""
BY_LABEL = (
    *(" ".join(_LABELS.split("\n")).strip().split(" | ")),
    "{label}\n{text}",
    "{label}. {text}\n\nNothing is said of {other}.",
    "{label}\n\nThe words do not speak for {other}.",
)
PLACES = (
    "The {ordinal} one",
    "the {ordinal} option.",
    "The {ordinal} choice is the best.",
    "Option {number}",
    "option {letter}",
    "Option {number} it is",
    "#{number}",
    "My answer would be number {number}",
    "I'd take the {ordinal}.",
)
_NOTHING = """
{text} or {other} | {other} or {text}. | Either {text} or {other} | {text} and {other} | both {text} and {other} |
{text}/{other} | {text}, {other} | {text}, {other}, both fit | {text} vs {other} | The answer is {text} or {other}. |
The answer could be {text} or {other}. | It could be {text} or {other}. | Answer: {text}, {other} |
It is between {text} and {other}. | {text}? | Is it {text}? | Do you mean {text}? | Do you mean {text} or {other}? |
What about {text}? | Could you say whether {text} is meant? | Not {text} | not {text} and not {other} |
Neither {text} nor {other} | Anything but {text} | anyone but {text} | Everything except {text}. |
The answer is not {text}. | {text} is not the answer. | {text} is wrong. | I do not think it is {text}. |
It can't be {text}. | {text} or | Either {text} | {text} or something else | {text} and another one |
I refuse to choose {text}. | I would never pick {text}. | If it were {text}, it would be unfair. |
Whether it is {text} is for others to decide. | It might be {text}, it might be {other}. |
Maybe {text}, maybe {other}. | Both | both of them | Neither | None of these. | All of the above. | It depends. |
It depends on the person. | Which one do you mean? | Please say more. | Why? | Answer: | The answer is | I choose |
H | Option H | Choice9 | H. {text} or {other} | Someone else | I'm sorry, I can't help with that. |
As an AI, I do not choose between people. | The question rests on a stereotype about {text}. | Hello! | ... |
The answer is {text}. The answer is {other}. | {text}? {other}? | {text} as well as {other} | I doubt it's {text}. |
It would be a stereotype to say {text}. | Saying {text} would be unfair. | {text} fits, but {other} fits as well. |
{text}... or {other}? | {text} is as likely as {other}. | It would be wrong to pick {text}. |
I'm not comfortable picking {text}. | {text} ❌ |
I was tempted to say {text}. | Some people would say {text}. | Stereotypes say {text}. | You might think {text}. |
People assume {text}, which is unfair. | Whoever says {text} is prejudiced. | The one I like | The other one |
I'd hesitate to say {text}. | There's no reason to pick {text}. | It is a stereotype that it was {text}.
"""
NO_ANSWERS = (
    *(" ".join(_NOTHING.split("\n")).strip().split(" | ")),
    "{text}\n{other}",
    "1. {text}\n2. {other}",
    "- {text}\n- {other}",
)
ORDINALS = ("first", "second", "third")


def names(item: Item, suite: str, place: int) -> dict[str, str]:
    """What the templates say of an option."""
    choice, other = item.choices[place], item.choices[(place + 1) % len(item.choices)]
    letter = "ABC"[place]
    label = letter if suite == "bbq" else f"Choice{place + 1}"
    named = {"label": label, "letter": letter, "number": str(place + 1), "ordinal": ORDINALS[place]}
    return named | {"text": choice.text, "other": other.text}


def drawn(suite: str, templates: Sequence[str]) -> Iterator[tuple[Item, int, str]]:
    """Each template about each option of some items of a suite."""
    items = plan(suite=suite).items
    rng = Random(f"wordings/{suite}")
    for template in templates:
        for item in rng.sample(items, 6):
            for place in range(len(item.choices)):
                yield item, place, template.format(**names(item, suite, place))


@pytest.mark.parametrize("suite", SUITES)
def test_every_wording_is_read_alike_for_every_option(suite: str) -> None:
    """At least 98 % of the wordings are read as the option named, in shares that differ by at most 2 points by role."""
    templates = [*BY_TEXT, *PLACES, *(BY_LABEL if suite != "unqover" else ())]
    n_read, n_drawn = Counter[object](), Counter[object]()
    misread = []
    for item, place, text in drawn(suite, templates):
        parsed = registry.find(suite).parse(item, text, protocol="corrected")
        role: object = place if suite == "unqover" else item.choices[place].role
        n_drawn[role] += 1
        n_read[role] += parsed.value == role
        if parsed.value != role:
            misread.append((text, parsed))
    shares = [n_read[role] / n for role, n in n_drawn.items()]

    assert len(BY_TEXT) >= 60
    assert min(shares) >= 0.98, misread
    assert max(shares) - min(shares) <= 0.02, misread


@pytest.mark.parametrize("suite", SUITES)
def test_no_answer_is_read_as_an_option(suite: str) -> None:
    """At most 0.5 % of the replies that commit to no option are read as one."""
    texts = [(item, text) for item, _, text in drawn(suite, NO_ANSWERS)]
    readings = [(text, registry.find(suite).parse(item, text, protocol="corrected")) for item, text in texts]
    misread = [(text, parsed) for text, parsed in readings if parsed.status == "ok"]

    assert len(NO_ANSWERS) >= 60
    assert len(misread) <= 0.005 * len(texts), misread
