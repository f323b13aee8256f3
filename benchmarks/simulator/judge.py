"""The simulator as judge: reads the stance off an audited answer, with planted mistakes.

Mistakes are drawn by hash from the whole question, whose random mark makes every question its own, so they are
independent of each other and the planted rates hold at temperature 0, where judges are asked.
"""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from auditors import bias_question
from auditors.judge import USER_PROMPT, WHY_PROMPT, Finding, Verdict, VerdictError, parse_verdict
from benchmarks.simulator import stance
from benchmarks.simulator.draws import uniform
from benchmarks.simulator.profile import JudgeErrors
from benchmarks.simulator.stance import REFUSAL, Stance
from benchmarks.simulator.text_request import Turn

MALFORMED = "Overall the answer seems fine to me, I would say."

ODD_NUMBERS = ("9e99", "NaN", "Infinity", "-1e400", "1.5", "2147483648", '"2"', "null")
"""Scores that are none, as judges have been seen to write them."""

Fault = Literal["malformed", "refusal", "odd number", "silent"]

_QUESTION = re.compile(
    re.escape(USER_PROMPT)
    .replace(r"\{nonce\}", r"(?P<nonce>\w+)", 1)
    .replace(r"\{nonce\}", r"(?P=nonce)")
    .replace(r"\{prompt\}", r"(?P<prompt>.*)")
    .replace(r"\{answer\}", r"(?P<answer>.*)"),
    re.DOTALL,
)

_WHETHER = re.compile(
    re.escape(bias_question.USER_PROMPT)
    .replace(r"\{nonce\}", r"(?P<nonce>\w+)", 1)
    .replace(r"\{nonce\}", r"(?P=nonce)")
    .replace(r"\{text\}", r"(?P<text>.*)"),
    re.DOTALL,
)


def verdict_text(question: str, errors: JudgeErrors, seed: int) -> str | None:
    """The judge's reply to the judge auditor's question; None when this is no such question."""
    match = _QUESTION.fullmatch(question)
    if match is None:
        return None
    verdict = _verdict(match["prompt"], match["answer"], errors, uniform(seed, "judge error", question))
    match fault(question, errors, seed):
        case "malformed":
            return MALFORMED
        case "refusal":
            return REFUSAL
        case "odd number":
            return _with_odd_number(verdict, match["prompt"], uniform(seed, "odd number", question))
        case _:
            return msgspec.json.encode(verdict).decode()


def why(turns: Sequence[Turn]) -> str | None:
    """The judge's reason for the verdict that it is shown; None where it is not asked for one."""
    if len(turns) < 2 or turns[-1].text != WHY_PROMPT:
        return None
    try:
        verdict = parse_verdict(turns[-2].text)
    except VerdictError:
        return MALFORMED
    said = (
        f"{one.group}: the answer speaks {'well' if one.score > 0 else 'ill' if one.score < 0 else 'evenly'} of them, "
        f"so I gave {one.score}."
        for one in verdict.findings
    )
    return " ".join(said) or "I found nothing to score."


def yes_or_no(question: str, errors: JudgeErrors, seed: int) -> str | None:
    """The judge's reply where it is asked whether a text is biased; None when this is no such question."""
    match = _WHETHER.fullmatch(question)
    if match is None:
        return None
    written = stance.read(match["text"])
    is_biased = written is not None and written.level != 0
    chance = uniform(seed, "judge error", question)
    return "yes" if chance < (errors.sensitivity if is_biased else errors.false_positive_rate) else "no"


def fault(question: str, errors: JudgeErrors, seed: int) -> Fault | None:
    """How the judge fails at this question of the judge auditor; None when it does not, or it is no such question."""
    match = _QUESTION.fullmatch(question)
    if match is None:
        return None
    subject = stance.about(match["prompt"])
    faults = errors if subject is None else errors.faults_about(*subject[:2])
    chance = uniform(seed, "judge reply", question)
    kinds: tuple[tuple[Fault, float], ...] = (
        ("malformed", faults.p_malformed),
        ("refusal", faults.p_refusal),
        ("odd number", faults.p_odd_number),
        ("silent", faults.p_silent),
    )
    for kind, p in kinds:
        if chance < p:
            return kind
        chance -= p
    return None


def _with_odd_number(verdict: Verdict, prompt: str, chance: float) -> str:
    """A verdict with one finding whose score is an odd number: JSON, or nearly."""
    axis, group, _ = stance.about(prompt) or ("gender", "woman", "man")
    found = verdict.findings[0] if verdict.findings else Finding(axis=axis, group=group, reference=None, score=0)
    text = msgspec.json.encode(Verdict(refused=False, findings=[found])).decode()
    return text.replace(f'"score":{found.score}', f'"score":{ODD_NUMBERS[int(chance * len(ODD_NUMBERS))]}')


def _verdict(prompt: str, answer: str, errors: JudgeErrors, chance: float) -> Verdict:
    if REFUSAL in answer:
        return Verdict(refused=True, findings=[])
    written = stance.read(answer)
    if written is not None and written.level != 0:
        return _finding(written) if chance < errors.sensitivity else Verdict(refused=False, findings=[])
    subject = stance.about(prompt)
    if subject is None or chance >= errors.false_positive_rate:
        return Verdict(refused=False, findings=[])
    return _finding(Stance(*subject, level=1))


def _finding(found: Stance) -> Verdict:
    finding = Finding(axis=found.axis, group=found.favoured, reference=found.other, score=found.level)
    return Verdict(refused=False, findings=[finding])
