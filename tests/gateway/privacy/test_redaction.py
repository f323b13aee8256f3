"""What is taken out of text, what stays, and that nothing gets past the shape in which it travels."""

import json
from collections import Counter

import pytest

from auditors.text.identity import groups_mentioned
from auditors.text.readers.exchange import read_conversation
from gateway.privacy.bodies import redacted_request, redacted_response, user_of
from gateway.privacy.redaction import DEFAULT_KINDS, Redactor
from gateway.sampling.folding import folded
from tests.support.auditors.exchanges import events
from tests.support.processor_time import processor_seconds
from tests.support.store.made import exchange

REDACTOR = Redactor()
WITH_NAMES = Redactor([*DEFAULT_KINDS, "name"])


def redacted_events(
    body: bytes, redactor: Redactor, found: Counter[str], endpoint: str = "/v1/chat/completions"
) -> bytes:
    """A stream as it is stored: joined, then redacted."""
    joined = folded(exchange(stream=True, response_body=body, endpoint=endpoint), None)
    return redacted_response(joined.response_body, redactor, found)


SECRETS = ("ann.b@example.org", "+49 170 1234567", "4111 1111 1111 1111", "sk-abcdefghijklmnop1234")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to anna.b+x@mail.example.org now", "write to [email] now"),
        ("call +49 (0)170 123-4567 today", "call [phone] today"),
        ("call (555) 123-4567 or 0170/1234567", "call [phone] or [phone]"),
        ("card 4111 1111 1111 1111.", "card [card]."),
        ("amex 378282246310005", "amex [card]"),
        ("to DE89 3704 0044 0532 0130 00 please", "to [iban] please"),
        ("to gb82west12345698765432", "to [iban]"),
        ("from 192.168.10.200", "from [ip]"),
        ("from 2001:db8::ff00:42:8329, often", "from [ip], often"),
        ("my key is sk-abcdefghijklmnop1234", "my key is [key]"),
        ("export TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "export TOKEN=[key]"),
        ("Authorization: Bearer abcdefghijklmnop.qrs", "Authorization: Bearer [key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[key]"),
        ("password: hunter2hunter2 is it", "password: [key] is it"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY----- end", "[key] end"),
        ("passport number 123456789", "passport number [number]"),
    ],
)
def test_identifying_text_is_replaced(text: str, shown: str) -> None:
    """What points at a person or opens a door is replaced by the kind of thing it was."""
    assert REDACTOR.redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "in 1969 and 2024",
        "on 2024-01-15 or 15.01.2024",
        "costs 1,200 euros",
        "a 3.5 ratio",
        "item-12345",
        "Anna is a nurse",
        "version 1.2.3",
        "at 12:30:15",
        "black and white women, Muslims and a man",
        "the std::vector of ::",
        "the token is short",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """Years, dates, prices, times, words and identity terms are left alone."""
    assert REDACTOR.redacted(text) == text


def test_check_digits_decide() -> None:
    """Sixteen digits that fail Luhn's check are a number, no card; an IBAN that fails mod 97 is no IBAN."""
    found = Counter[str]()
    REDACTOR.redacted("4111111111111112 and DE88 3704 0044 0532 0130 00", found)
    assert found["card"] == 0
    assert found["iban"] == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Dear Anna Schmidt, welcome", "Dear [name], welcome"),
        ("my name is José", "my name is [name]"),
        ("ask Mrs. O’Neill there", "ask Mrs. [name] there"),
        ("today Lakisha Washington won", "today [name] won"),
        ("compare African Americans and European Americans", "compare African Americans and European Americans"),
        ("The White House says so", "The White House says so"),
    ],
)
def test_names_are_replaced_on_request_only(text: str, shown: str) -> None:
    """Person names go when asked for; identity terms stay; without asking, so do names."""
    assert WITH_NAMES.redacted(text) == shown
    assert REDACTOR.redacted(text) == text


def test_redaction_keeps_the_groups_that_auditors_look_for() -> None:
    """The groups mentioned are the same before and after."""
    text = "I am ann@example.org, a Muslim woman, call +49 170 1234567; are men or Hindus better?"
    assert groups_mentioned(REDACTOR.redacted(text)) == groups_mentioned(text)


def chat(text: str, **fields: object) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **fields}).encode()


def test_escapes_in_json_hide_nothing() -> None:
    """An address written with JSON escapes, in a key, in parts or in tool arguments is found."""
    body = (
        rb'{"messages": [{"role": "user", "content": [{"type": "text", "text": "ann\u0040example.org"}]}],'
        rb' "metadata": {"bob@example.org": 1}, "tools": [{"arguments": "{\"to\": \"eve@example.org\"}"}]}'
    )
    found = Counter[str]()
    assert b"example" not in redacted_request(body, REDACTOR, found)
    assert found == {"email": 3}


def test_a_repeated_field_hides_nothing() -> None:
    """Of a field given twice only the one that counts is stored."""
    body = b'{"messages": [], "note": "ann@example.org", "note": "x"}'
    assert b"example" not in redacted_request(body, REDACTOR, Counter())


def test_what_is_no_json_is_not_kept() -> None:
    """A body that nobody could audit is dropped instead of searched."""
    assert redacted_request(b'{"a": "ann@example.org"', REDACTOR, Counter()) == b""
    assert redacted_response(b"\xff\xfe ann@example.org", REDACTOR, Counter()) == b""
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    assert redacted_request(deep, REDACTOR, Counter()) == b""


def test_media_and_token_numbers_are_dropped() -> None:
    """Pictures, token ids and log-probabilities carry text past any pattern, so they are not stored."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBOR" * 200}}
    body = json.dumps({"messages": [{"role": "user", "content": [picture]}], "prompt": [[1, 2], [3]]}).encode()
    found = Counter[str]()
    stored = json.loads(redacted_request(body, REDACTOR, found))
    assert stored["messages"][0]["content"][0]["image_url"]["url"] == "[media]"
    assert (stored["prompt"], found) == ([[], []], {"media": 1})
    reply = b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{"token": "ann@"}]}}]}'
    assert b"ann" not in redacted_response(reply, REDACTOR, Counter())


def test_the_user_is_named_to_the_store_only() -> None:
    """Who asked is read for their digest and hidden in the body that is stored."""
    for fields in ({"user": "ann"}, {"safety_identifier": "ann"}, {"metadata": {"user_id": "ann"}}):
        body = chat("x", **fields)
        assert user_of(body) == "ann"
        assert b'"ann"' not in redacted_request(body, REDACTOR, Counter())
    assert user_of(b"[1]") is None
    assert user_of(chat("x", user=7)) is None


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_values_split_over_events_are_found(size: int) -> None:
    """However a stream cuts a reply, the text joined from it is that of the reply redacted in one piece."""
    reply = "Write to " + ", ".join(SECRETS) + ": a woman answers. 11111111111"
    pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
    chunks = [{"id": "c-1", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    found = Counter[str]()
    body = redacted_events(events(*chunks, "[DONE]"), REDACTOR, found)
    conversation = read_conversation(exchange(stream=True, response_body=body))
    assert conversation.reply_text == REDACTOR.redacted(reply)
    assert conversation.notes == []
    assert not any(secret.encode() in body for secret in SECRETS)
    assert found == {"email": 1, "phone": 1, "card": 1, "key": 1, "number": 1}


def test_choices_of_a_stream_are_kept_apart() -> None:
    """Pieces of different choices are not put together."""
    pieces = ((0, "ann@"), (1, "bob@"), (0, "one.example"), (1, "two.example"))
    chunks = [{"choices": [{"index": index, "delta": {"content": piece}}]} for index, piece in pieces]
    shown = redacted_events(events(*chunks), REDACTOR, Counter())
    assert shown.count(b"[email]") == 2


def test_events_of_the_other_endpoints_are_redacted() -> None:
    """Pieces of a Messages stream and of a Responses stream are one text, and the last event does not repeat it."""
    pieces = ("to ann@", "b.example")
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    texts = [{"type": "text_delta", "text": piece} for piece in pieces]
    deltas = [{"type": "content_block_delta", "index": 0, "delta": text} for text in texts]
    messages = events(block, *deltas, {"type": "message_stop"})
    place = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    whole = {"status": "completed", "output": [{"text": "to ann@b.example"}]}
    ended = {"type": "response.completed", "response": whole}
    responses = events(*({**place, "delta": piece} for piece in pieces), ended)
    request = {"/v1/messages": chat("x"), "/v1/responses": b'{"input": "x"}'}
    for endpoint, body in (("/v1/messages", messages), ("/v1/responses", responses)):
        shown = redacted_events(body, REDACTOR, Counter(), endpoint)
        one = exchange(endpoint=endpoint, stream=True, request_body=request[endpoint], response_body=shown)
        assert read_conversation(one).reply_text == "to [email]"
        assert read_conversation(one).notes == []
        assert b"b.example" not in shown


def test_a_broken_event_stays_unreadable() -> None:
    """An event that is no JSON is not turned into a reply that can be scored."""
    body = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\ndata: ann@example.org\n\n'
    shown = redacted_events(body, REDACTOR, Counter())
    assert b"example" not in shown
    with pytest.raises(Exception, match="not a JSON object"):
        read_conversation(exchange(stream=True, response_body=shown))


@pytest.mark.parametrize(
    "unit", ["1 ", "a@", "1:", "a.", "Ab ", "1111-", "(((", "AB12", "password=", "\u0661", "-" * 5]
)
def test_hostile_text_costs_little(unit: str) -> None:
    """No text of 100 kB takes the patterns longer than two seconds, however it repeats itself."""
    text = unit * (100_000 // len(unit))
    assert processor_seconds(lambda: WITH_NAMES.redacted(text)) < 2
