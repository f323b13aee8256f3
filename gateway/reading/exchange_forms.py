"""The forms in which a stored exchange is shown, with personal data taken out of every text."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.audit_texts import LONGEST_CHARS, Answers, KeptAnswer, Reason, Shares
from auditors.structs import combine
from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.privacy.redaction import Redactor
from gateway.reading.differences import Piece, differences, in_order
from gateway.store.exchange_search import Audit, Found, Score, Stored
from gateway.store.exchanges import State

PAGE_BYTES = 8 * 1024 * 1024
"""Most bytes of text on a page; sending more in a piece would hold up live requests."""
LONGEST_MESSAGE = 300
"""Characters of what a server or judge said that are shown where an exchange has no score."""

_SHOWN = Redactor()
"""Text stored before redaction was configured is redacted at least when it is shown."""


class ShownExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One score of an exchange, or an exchange that has none: then `no_score_because` says why."""

    id: str
    request_id: str
    received_at: float
    model: str
    """The model as the client named it."""
    served_model: str
    upstream: str
    key: str | None
    tag: str | None
    state: State
    auditor: str | None
    metric: str | None
    axis: str | None
    group: str | None
    reference: str | None
    value: float | None
    inclusion_probability: float | None
    """Probability of the score; without a score, of the exchange's sampling. Null if that is not known."""
    prompt: str | None
    reply: str | None
    no_text_because: str | None
    no_score_because: str | None


class ShownScore(Score, frozen=True, kw_only=True):
    """A measurement, or the recorded absence of a measurement; `reason` says why the value is null."""


class PolicyOfExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that covered an exchange."""

    name: str
    version: str | None
    arm: str | None
    treated_share: float | None
    instruction: str | None
    """The text that was added to the request."""


class ShownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a pair of answers."""

    text: list[Piece]
    calls: list[Piece]
    """Tools that it asked for, by name, each with its arguments in order; none was run."""
    is_refusal: bool
    is_cut: bool
    """It goes on: its limit of tokens ended it, or there is more of it than is kept."""


class ShownPair(msgspec.Struct, frozen=True):
    """An answer to either question; what one has and the other has not is marked."""

    asked: ShownAnswer
    swapped: ShownAnswer


class Counterpart(msgspec.Struct, frozen=True, kw_only=True):
    """The question about another group, as the counterfactual auditor asked it."""

    axis: str
    group: str
    reference: str
    """The group swapped in."""
    words_swapped: int
    asked: list[Piece]
    swapped: list[Piece]
    answers: list[ShownPair] | None
    """Answers that were all drawn newly for the audit; two answers to the same question differ by chance."""
    no_answers_because: str | None


class WordShare(msgspec.Struct, frozen=True):
    """A part of the answer, with its share of the difference of log-likelihoods."""

    text: str
    nats: float
    is_swapped: bool
    """The swap exchanged it."""
    level: int
    """A number from 0 to 4, in proportion to the largest share of the answer."""


class ExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange with all that is known of it. Times are Unix seconds; what is null is explained in `reasons`."""

    id: str
    request_id: str
    received_at: float
    endpoint: str
    model: str
    served_model: str
    upstream: str
    system_fingerprint: str | None
    """Fingerprint of the answer: tells the servers behind the same address apart."""
    stream: bool
    status_code: int
    key: str | None
    tag: str | None
    stratum: str
    inclusion_probability: float | None
    sender_rate: float | None
    """Rate at which the sender sampled its exchanges (docs/ingest.md); 1 for those that were relayed."""
    rate_factor: float
    threshold: float | None
    policy: PolicyOfExchange | None
    seconds: float | None
    first_chunk_seconds: float | None
    state: State
    settled_at: float | None
    redactions: Mapping[str, int]
    """Places of its text that were replaced before it was stored, by kind."""
    prompt: str | None
    reply: str | None
    scores: list[ShownScore]
    """Every measurement of every auditor, also those without a value."""
    audits: list[Audit]
    judge_reasons: str | None
    """Reasons that the judge gave when it was asked, after its verdict, why."""
    counterpart: Counterpart | None
    likelihood: list[WordShare] | None
    """Words of the answer with their shares in `likelihood_divergence`."""
    reasons: dict[str, str]


NO_JUDGE_REASONS = (
    "none is kept: the judge is asked for one where auditors.judge.keep_reasons is on, of groups that it reported"
)
NO_ANSWERS = "the answers to both questions are not kept: set auditors.counterfactual.keep_answers"
NO_SHARES = "no shares of words are kept: set auditors.likelihood.keep_shares"
OTHER_WORDS = "the answer is shown in other words than were scored"
NO_POLICY = "no policy covered it"


_SCORED = ("auditor", "metric", "axis", "group", "reference", "value")
"""Fields of a row that are of its score."""


class Shown:
    """Rows of a page: texts are redacted once, cut to `excerpt` characters (None: all), PAGE_BYTES at most in all."""

    def __init__(self, excerpt: int | None = None) -> None:
        self._excerpt = excerpt
        self._room = PAGE_BYTES
        self._texts: dict[str, Text] = {}

    def row(self, result: Found, why: str | None = None) -> ShownExchange:
        """One row; `why` it has no score."""
        exchange, score = result.exchange, result.score
        text = self._text(result.stored)
        return combine(
            ShownExchange,
            exchange,
            **{name: getattr(score, name, None) for name in _SCORED},
            key=exchange.key_name,
            state=result.stored.state,
            inclusion_probability=score.inclusion_probability
            if score and exchange.sender_rate is not None
            else exchange.known_probability,
            prompt=text.prompt,
            reply=text.reply,
            no_text_because=text.reason,
            no_score_because=why,
        )

    def _text(self, stored: Stored) -> "Text":
        text = self._texts.get(stored.exchange.id)
        if text is None:
            text = text_of(stored, self._room)
            if self._excerpt is not None:
                text = Text(_cut(text.prompt, self._excerpt), _cut(text.reply, self._excerpt), text.reason)
            self._texts[stored.exchange.id] = text
        size = len(text.prompt or "") + len(text.reply or "")
        if size > self._room:
            return Text(None, None, PAGE_IS_FULL)
        self._room -= size
        return text


class Text(msgspec.Struct, frozen=True):
    """Prompt and reply, redacted; or None twice and why."""

    prompt: str | None
    reply: str | None
    reason: str | None


UNKNOWN_RATE = "its sender did not state a sampling rate"
PAGE_IS_FULL = "this page is full: ask for it alone with exchange_id"


def text_of(stored: Stored, room: int = PAGE_BYTES) -> Text:
    """The text of an exchange that has at most so many bytes of it."""
    exchange: Exchange = stored.exchange
    if stored.is_unredactable:
        return Text(None, None, "unredactable: redacting it took too long, so its text was dropped")
    if not exchange.request_body:
        reason = "the text was dropped (store.keep_text), or its key is no longer configured"
        return Text(None, None, reason)
    if len(exchange.request_body) + len(exchange.response_body) > room:
        return Text(None, None, PAGE_IS_FULL)
    try:
        conversation = read_conversation(exchange)
    except NotAuditableError as exc:
        return Text(None, None, redacted(str(exc)))
    return Text(redacted(conversation.prompt_text), redacted(conversation.reply_text), None)


def redacted(text: str) -> str:
    return _SHOWN.redacted(text)


def why_no_score(stored: Stored, audits: Sequence[Audit], measured: Sequence[Score]) -> str:
    """Why an exchange has no score, in a line."""
    messages = [f"{audit.auditor}: {_describe_audit(audit)}" for audit in audits if audit.message or audit.failure_kind]
    without = dict.fromkeys(f"{score.auditor}: {_excerpt(score.reason or score.status)}" for score in measured)
    match stored.state:
        case "queued":
            return "; ".join(["it waits for its audit", *messages])
        case "sampled_out":
            return "the auditors' own rates (auditors.NAME.rate) left it out"
        case "expired":
            return "it waited too long for an auditor"
        case "audited":
            return (
                "; ".join(["audited without a score", *without, *messages]) if without or messages else NOTHING_TO_SCORE
            )
        case state:
            return "; ".join([state.replace("_", " "), *messages, *without])


NOTHING_TO_SCORE = "audited without a score: nothing that an auditor scores was found in it"


def shown_audit(audit: Audit) -> Audit:
    """Return the audit with a message that may be shown."""
    return audit if audit.message is None else msgspec.structs.replace(audit, message=redacted(audit.message))


def shown_score(score: Score) -> ShownScore:
    """Return the score with a reason and details that may be shown."""
    reason = None if score.reason is None else redacted(score.reason)
    return combine(ShownScore, score, reason=reason, detail=_redacted_detail(score.detail))


def shown_reason(reason: Reason | None, excerpt: int | None = None) -> tuple[str | None, str | None]:
    """A judge's reason, or None and why there is none."""
    if reason is None or reason.text is None:
        return None, NO_JUDGE_REASONS if reason is None else reason.why_none
    text = redacted(reason.text)
    return text if excerpt is None else _cut(text, excerpt), None


def shown_counterpart(question: str, answers: Answers, excerpt: int | None = None) -> Counterpart:
    """Both questions and the answers that the audit left, side by side, cut to `excerpt` characters if given."""
    return counterpart_of(
        (answers.axis, answers.group, answers.reference, answers.words_swapped),
        (question[:LONGEST_CHARS], redacted(answers.question)),
        [_pair(*pair, excerpt) for pair in zip(answers.asked, answers.swapped, strict=False)],
        excerpt,
    )


def counterpart_of(
    about: tuple[str, str, str, int],
    questions: tuple[str, str],
    answers: list[ShownPair] | None = None,
    excerpt: int | None = None,
) -> Counterpart:
    """Return two questions, as they may be shown; `about` is axis, group, the group swapped in, and words swapped."""
    axis, group, reference, n_words = about
    own_pieces, swapped = differences(*(_limited(question, excerpt) for question in questions))
    return Counterpart(
        axis=axis,
        group=group,
        reference=reference,
        words_swapped=n_words,
        asked=own_pieces,
        swapped=swapped,
        answers=answers,
        no_answers_because=NO_ANSWERS if answers is None else None,
    )


def _pair(original: KeptAnswer, swapped: KeptAnswer, excerpt: int | None) -> ShownPair:
    texts = differences(*(_limited(in_order(redacted(answer.text)), excerpt) for answer in (original, swapped)))
    calls = differences(*(_limited(_calls(answer), excerpt) for answer in (original, swapped)))
    return ShownPair(
        *(
            ShownAnswer(text=text, calls=of_tools, is_refusal=answer.is_refusal, is_cut=answer.is_cut)
            for answer, text, of_tools in zip((original, swapped), texts, calls, strict=True)
        )
    )


def _calls(answer: KeptAnswer) -> str:
    in_turn = sorted(answer.calls, key=lambda call: call.name)
    return "\n\n".join(f"{redacted(call.name)}\n{in_order(redacted(call.arguments))}" for call in in_turn)


def _limited(text: str, excerpt: int | None) -> str:
    return text if excerpt is None else _cut(text, excerpt) or ""


def word_shares(reply: str | None, shares: Shares | None) -> list[WordShare] | str:
    """Return the words of an answer with their shares, or why there are none."""
    words, text = list[WordShare](), (reply or "").strip()
    if shares is None or sum(length for length, _, _ in shares.pieces) != len(text):
        return NO_SHARES if shares is None else OTHER_WORDS
    largest, at = max((abs(nats) for _, nats, _ in shares.pieces), default=0.0) or 1.0, 0
    for length, nats, is_swapped in shares.pieces:
        words.append(WordShare(text[at : at + length], nats, is_swapped, round(4 * abs(nats) / largest)))
        at += length
    return words


def shown_record(
    stored: Stored,
    measured: Sequence[Score],
    audits: Sequence[Audit],
    counterpart: Counterpart | str,
    reason: Reason | None,
    shares: Shares | None = None,
) -> ExchangeRecord:
    """Return all knowledge about an exchange; `counterpart` may be the reason why there is none."""
    exchange, text = stored.exchange, text_of(stored)
    likelihood = word_shares(text.reply, shares)
    policy = None
    if exchange.mitigation is not None:
        policy = combine(PolicyOfExchange, exchange, name=exchange.mitigation, version=exchange.policy_version)
    judge_reasons, why_none = shown_reason(reason)
    reasons = {} if why_none is None else {"judge_reasons": why_none}
    if text.reason is not None:
        reasons |= {"prompt": text.reason, "reply": text.reason}
    if isinstance(counterpart, str):
        reasons["counterpart"] = counterpart
    if isinstance(likelihood, str):
        reasons["likelihood"] = likelihood
    if policy is None:
        reasons["policy"] = NO_POLICY
    if not any(score.value is not None for score in measured):
        reasons["scores"] = why_no_score(stored, audits, measured)
    if exchange.sender_rate is None:
        reasons |= dict.fromkeys(("inclusion_probability", "sender_rate"), UNKNOWN_RATE)
    return combine(
        ExchangeRecord,
        exchange,
        stored,
        inclusion_probability=exchange.known_probability,
        key=exchange.key_name,
        policy=policy,
        prompt=text.prompt,
        reply=text.reply,
        scores=[shown_score(score) for score in measured],
        audits=[shown_audit(audit) for audit in audits],
        judge_reasons=judge_reasons,
        counterpart=None if isinstance(counterpart, str) else counterpart,
        likelihood=None if isinstance(likelihood, str) else likelihood,
        reasons=reasons,
    )


def _describe_audit(audit: Audit) -> str:
    words = _excerpt(audit.message or "")
    return f"waits for {audit.server}: {words}" if audit.outcome == "waiting" else words or str(audit.failure_kind)


def _excerpt(text: str) -> str:
    return redacted(text[:LONGEST_MESSAGE])


def _cut(text: str | None, length: int) -> str | None:
    return text if text is None or len(text) <= length else f"{text[:length].rstrip()} …"


def _redacted_detail(value: Any) -> Any:
    match value:
        case str():
            return redacted(value)
        case list():
            return [_redacted_detail(item) for item in value]
        case dict():
            return {name: _redacted_detail(item) for name, item in value.items()}
    return value
