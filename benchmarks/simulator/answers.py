"""Which planted behaviour answers a request, and with what distribution. Pure: profile, seed and request decide."""

import re

from auditors.affinity import CHOICE_PROMPT
from benchmarks.simulator import stance
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.counterfactual import CLOSING, topics_of
from benchmarks.simulator.identities import without_identity
from benchmarks.simulator.judge import fault, verdict_text, why, yes_or_no
from benchmarks.simulator.planted import bbq, cogs, masked, table
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.prose import SIGNATURES, compose
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.sections import LEVELS
from benchmarks.simulator.stance import LECTURE, REFUSAL, Stance
from benchmarks.simulator.text_request import Asked

_CHOICE_QUESTION = re.compile(
    re.escape(CHOICE_PROMPT)
    .replace(r"\{n\}", r"\d+")
    .replace(r"\{nonce\}", r"(?P<nonce>\w+)", 1)
    .replace(r"\{nonce\}", r"(?P=nonce)")
    .replace(r"\{request\}", r"\[request (?P=nonce)\]\n.*?")
    .replace(r"\{choices\}", r"(?P<choices>\[choice 1 (?P=nonce)\].*)"),
    re.DOTALL,
)


class Answers:
    """Planted replies under one profile. `key` knows the benchmark questions."""

    def __init__(self, profile: Profile, seed: int, key: AnswerKey) -> None:
        self._profile = profile
        self._seed = seed
        self._key = key
        self._evaluator = cogs.Planted(profile, seed)
        self._behaviours = table.behaviours(profile, seed)

    def replies(self, asked: Asked) -> Replies:
        """The distribution before the request's own constraints (allowed choices, forced beginning).

        The first that recognises the request answers it; prose answers everything.
        """
        return (
            self._call(asked)
            or self._verdict(asked)
            or self._affinity(asked)
            or next((found for one in self._behaviours if (found := one.replies(asked)) is not None), None)
            or table.replies(asked, self._profile, self._key, self._seed)
            or masked.by_chance(asked)
            or bbq.by_chance(asked)
            or self._instance(asked)
            or self._prose(asked.user)
        )

    @property
    def can_be_silent(self) -> bool:
        """Whether any question may remain without an answer."""
        return self._profile.judge.can_be_silent

    def is_silent(self, asked: Asked) -> bool:
        """Whether this request is a judge's question that never gets its answer."""
        return self.can_be_silent and fault(asked.user, self._profile.judge, self._seed) == "silent"

    def calls(self, asked: Asked) -> bool:
        """Whether the reply is a call of a tool: where one is demanded, or planted for what a user says."""
        if not asked.offer.tools or asked.choices is not None or asked.prefix:
            return False
        last, is_planted = asked.turns[-1], self._profile.structured.tool is not None
        return asked.offer.is_demanded or (is_planted and last.role == "user" and bool(last.text))

    def _call(self, asked: Asked) -> Replies | None:
        return Replies(self._profile.structured.calls(asked.case, asked.offer)) if self.calls(asked) else None

    def _verdict(self, asked: Asked) -> Replies | None:
        errors, seed = self._profile.judge, self._seed
        judged = verdict_text(asked.user, errors, seed) or yes_or_no(asked.user, errors, seed) or why(asked.turns)
        return None if judged is None else Replies({judged: 1.0})

    def _affinity(self, asked: Asked) -> Replies | None:
        """The live evaluator's choice among answers under identities, by the likings planted for CoGS."""
        match = _CHOICE_QUESTION.fullmatch(asked.user)
        if match is None:
            return None
        texts = re.split(rf"^\[choice \d+ {match['nonce']}\]\n", match["choices"], flags=re.MULTILINE)
        return self._evaluator.choices(texts[1:])

    def _instance(self, asked: Asked) -> Replies | None:
        if asked.schema is None:
            return None
        return Replies(self._profile.structured.instances(asked.case, asked.schema))

    def _prose(self, prompt: str) -> Replies:
        """A free reply: the stance on the group that the prompt is about, then as many shifted sentences as planted.

        A reply under an identity ends in its signature, by which an evaluator knows whose it is.
        """
        asked, is_instructed = _without_instruction(prompt)
        question, identity = without_identity(asked)
        topics = topics_of(question)
        subject = stance.about(question)
        if identity is not None or subject is None:
            fraction = 0.0 if identity is None else self._profile.representative.fraction(identity)
            written = {self._written(topics, fraction): 1.0}
        else:
            written = self._about(topics, *subject[:2])
        signature = SIGNATURES.get(identity or "", "")
        bodies = {f"{body} {signature}".strip(): p for body, p in written.items()}
        if subject is None:
            return Replies(bodies)
        axis, group, other = subject
        refusal = self._profile.refusal
        p_refusal, p_lecture = refusal.rate(axis, group), refusal.lecture_rate(axis, group)
        weights = {REFUSAL: p_refusal}
        levels = self._profile.favoritism.levels(axis, group, is_instructed=is_instructed)
        for level, p_level in zip(LEVELS, levels, strict=True):
            said = stance.write(Stance(axis, group, other, level))
            for body, p_body in bodies.items():
                p = (1 - p_refusal) * p_level * p_body
                weights[f"{said} {body}"] = p * (1 - p_lecture)
                weights[f"{LECTURE} {said} {body}"] = p * p_lecture
        return Replies(weights)

    def _about(self, topics: str, axis: str, group: str) -> dict[str, float]:
        """Bodies of replies about a group with their probabilities."""
        planted = self._profile.counterfactual
        closings = [CLOSING] * planted.closings.get(axis, {}).get(group, 0)
        shifts = planted.shifts(axis, group)
        texts = [" ".join([self._written(topics, fraction), *closings]) for fraction in shifts]
        return dict.fromkeys(texts, 1 / len(set(texts)))

    def _written(self, topics: str, fraction: float) -> str:
        return " ".join(compose(topics, fraction=fraction, seed=self._seed))


def _without_instruction(prompt: str) -> tuple[str, bool]:
    """What is asked behind a first line that asks not to stereotype, and whether there was one."""
    first, _, rest = prompt.partition("\n")
    return (rest, True) if rest and "stereotyp" in first.lower() else (prompt, False)
