"""Chooses the planted behaviour for a request; the simulator as judge, whose mistakes are hashed from the question."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from auditors.affinity import CHOICE_PROMPT
from auditors.judge import USER_PROMPT, WHY_PROMPT
from auditors.judge_verdict import Finding, Verdict, VerdictError, parse_verdict
from auditors.text import bias_question
from benchmarks.simulator import stance
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.counterfactual import CLOSING, topics_of
from benchmarks.simulator.planted import bbq, cogs, masked, table
from benchmarks.simulator.profile import JudgeErrors, Profile
from benchmarks.simulator.prose import compose, signature
from benchmarks.simulator.replies import Replies, uniform
from benchmarks.simulator.sections import LEVELS
from benchmarks.simulator.stance import LECTURE, REFUSAL, Stance, without_identity
from benchmarks.simulator.text_request import Asked, Turn

MALFORMED = "Overall the answer seems fine to me, I would say."

INVALID_SCORES = ("9e99", "NaN", "Infinity", "-1e400", "1.5", "2147483648", '"two"', "null")
"""Invalid scores as judges write them: off the scale, not finite, not a number."""

Fault = Literal["malformed", "refusal", "odd number", "silent"]

_QUESTION = stance.pattern_of(USER_PROMPT, nonce=r"\w+", prompt=".*", answer=".*")
_WHETHER = stance.pattern_of(bias_question.USER_PROMPT, nonce=r"\w+", text=".*")
_REQUEST, _CHOICES = r"\[request (?P=nonce)\]\n.*?", r"\[choice 1 (?P=nonce)\].*"
_CHOICE_QUESTION = stance.pattern_of(CHOICE_PROMPT, n=r"\d+", nonce=r"\w+", request=_REQUEST, choices=_CHOICES)


def reply_to_judge_question(question: str, errors: JudgeErrors, seed: int) -> str | None:
    """Return the judge's reply to the judge auditor's question; None for any other question."""
    match = _QUESTION.fullmatch(question)
    if match is None:
        return None
    verdict = _verdict(match["prompt"], match["answer"], errors, uniform(seed, "judge error", question))
    match draw_fault(question, errors, seed):
        case "malformed":
            return MALFORMED
        case "refusal":
            return REFUSAL
        case "odd number":
            return _with_odd_number(verdict, match["prompt"], uniform(seed, "odd number", question))
        case _:
            return msgspec.json.encode(verdict).decode()


def reply_with_reason(turns: Sequence[Turn]) -> str | None:
    """The judge's reason for the verdict that it is shown; None where it is not asked for one."""
    if len(turns) < 2 or turns[-1].text != WHY_PROMPT:
        return None
    try:
        verdict = parse_verdict(turns[-2].text)
    except VerdictError:
        return MALFORMED
    reasons = (
        f"{finding.group}: the answer speaks {_how_well(finding.score)} of them, so I gave {finding.score}."
        for finding in verdict.findings
    )
    return " ".join(reasons) or "I found nothing to score."


def _how_well(score: float) -> str:
    return "well" if score > 0 else "ill" if score < 0 else "evenly"


def reply_to_bias_question(question: str, errors: JudgeErrors, seed: int) -> str | None:
    """Return the judge's reply when asked whether a text is biased; None for any other question."""
    match = _WHETHER.fullmatch(question)
    if match is None:
        return None
    written = stance.read(match["text"])
    is_biased = written is not None and written.level != 0
    chance = uniform(seed, "judge error", question)
    return "yes" if chance < (errors.sensitivity if is_biased else errors.false_positive_rate) else "no"


def draw_fault(question: str, errors: JudgeErrors, seed: int) -> Fault | None:
    """Return the way in which the judge fails at this question; None when it does not, or for another question."""
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
    finding = verdict.findings[0] if verdict.findings else Finding(axis=axis, group=group, reference=None, score=0)
    text = msgspec.json.encode(Verdict(refused=False, findings=[finding])).decode()
    return text.replace(f'"score":{finding.score}', f'"score":{INVALID_SCORES[int(chance * len(INVALID_SCORES))]}')


def _verdict(prompt: str, answer: str, errors: JudgeErrors, chance: float) -> Verdict:
    if stance.is_refused(answer):
        return Verdict(refused=True, findings=[])
    written = stance.read(answer)
    if written is not None and written.level != 0:
        return _finding(written) if chance < errors.sensitivity else Verdict(refused=False, findings=[])
    subject = stance.about(prompt)
    if subject is None or chance >= errors.false_positive_rate:
        return Verdict(refused=False, findings=[])
    return _finding(Stance(*subject, level=1))


def _finding(read_stance: Stance) -> Verdict:
    finding = Finding(
        axis=read_stance.axis, group=read_stance.favoured, reference=read_stance.other, score=read_stance.level
    )
    return Verdict(refused=False, findings=[finding])


class Answers:
    """Planted replies under one profile. `key` knows the benchmark questions."""

    def __init__(self, profile: Profile, seed: int, key: AnswerKey) -> None:
        self._profile = profile
        self._seed = seed
        self._key = key
        self._evaluator = cogs.Planted(profile, seed)
        self._behaviours = table.behaviours(profile, seed)

    def replies(self, request: Asked) -> Replies:
        """The distribution, before allowed choices and forced beginning, of the first behaviour to match."""
        return (
            self._call(request)
            or self._verdict(request)
            or self._affinity(request)
            or next(
                (planted for behaviour in self._behaviours if (planted := behaviour.replies(request)) is not None), None
            )
            or table.replies(request, self._profile, self._key, self._seed)
            or masked.by_chance(request)
            or bbq.by_chance(request)
            or self._instance(request)
            or self._prose(request.user)
        )

    @property
    def can_be_silent(self) -> bool:
        """Return whether any question may remain without an answer."""
        return self._profile.judge.can_be_silent

    def is_silent(self, request: Asked) -> bool:
        """Return whether this request is a judge's question that never gets its answer."""
        return self.can_be_silent and draw_fault(request.user, self._profile.judge, self._seed) == "silent"

    def calls(self, request: Asked) -> bool:
        """Return whether the reply is a call of a tool, because one is demanded, or planted for the message."""
        if not request.offer.tools or request.choices is not None or request.prefix:
            return False
        last, is_planted = request.turns[-1], self._profile.structured.tool is not None
        return request.offer.is_demanded or (is_planted and last.role == "user" and bool(last.text))

    def _call(self, request: Asked) -> Replies | None:
        return Replies(self._profile.structured.calls(request.case, request.offer)) if self.calls(request) else None

    def _verdict(self, request: Asked) -> Replies | None:
        errors, seed = self._profile.judge, self._seed
        judged = (
            reply_to_judge_question(request.user, errors, seed)
            or reply_to_bias_question(request.user, errors, seed)
            or reply_with_reason(request.turns)
        )
        return None if judged is None else Replies({judged: 1.0})

    def _affinity(self, request: Asked) -> Replies | None:
        """The live evaluator's choice among answers under identities, by the likings planted for CoGS."""
        match = _CHOICE_QUESTION.fullmatch(request.user)
        if match is None:
            return None
        texts = re.split(rf"^\[choice \d+ {match['nonce']}\]\n", match["choices"], flags=re.MULTILINE)
        return self._evaluator.choices(texts[1:])

    def _instance(self, request: Asked) -> Replies | None:
        if request.schema is None:
            return None
        return Replies(self._profile.structured.instances(request.case, request.schema))

    def _prose(self, prompt: str) -> Replies:
        """A free reply: stance on the prompt's group, shifted sentences as planted, a signature under an identity."""
        bare_prompt, is_instructed = _without_instruction(prompt)
        question, identity = without_identity(bare_prompt)
        topics = topics_of(question)
        subject = stance.about(question)
        if identity is not None or subject is None:
            fraction = 0.0 if identity is None else self._profile.representative.fraction(identity)
            written = {self._written(topics, fraction): 1.0}
        else:
            written = self._about(topics, *subject[:2])
        closing = signature(identity)
        bodies = {f"{body} {closing}".strip(): p for body, p in written.items()}
        if subject is None:
            return Replies(bodies)
        axis, group, other = subject
        refusal = self._profile.refusal
        p_refusal, p_lecture = refusal.rate(axis, group), refusal.lecture_rate(axis, group)
        weights = {REFUSAL: p_refusal}
        levels = self._profile.favoritism.levels(axis, group, is_instructed=is_instructed)
        for level, p_level in zip(LEVELS, levels, strict=True):
            sentence = stance.write(Stance(axis, group, other, level))
            for body, p_body in bodies.items():
                p = (1 - p_refusal) * p_level * p_body
                weights[f"{sentence} {body}"] = p * (1 - p_lecture)
                weights[f"{LECTURE} {sentence} {body}"] = p * p_lecture
        return Replies(weights)

    def _about(self, topics: str, axis: str, group: str) -> dict[str, float]:
        planted = self._profile.counterfactual
        closings = [CLOSING] * planted.closings.get(axis, {}).get(group, 0)
        shifts = planted.shifts(axis, group)
        texts = [" ".join([self._written(topics, fraction), *closings]) for fraction in shifts]
        return dict.fromkeys(texts, 1 / len(set(texts)))

    def _written(self, topics: str, fraction: float) -> str:
        return " ".join(compose(topics, fraction=fraction, seed=self._seed))


def _without_instruction(prompt: str) -> tuple[str, bool]:
    """Return the prompt after a first line that asks not to stereotype, and whether there was such a line."""
    first, _, rest = prompt.partition("\n")
    return (rest, True) if rest and "stereotyp" in first.lower() else (prompt, False)
