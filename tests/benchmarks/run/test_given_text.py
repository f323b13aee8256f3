"""How probable a text is: what is asked for, and replies that do not tell."""

import json

import pytest

from auditors.types import CompletionError
from benchmarks.run.client import beginnings_body, read_logprobs, read_tokens

TOKENS = [5, 6, 7, 6]


def choice(index: int, **logprobs: float) -> dict[str, object]:
    top = {f"token_id:{name.removeprefix('t')}": value for name, value in logprobs.items()}
    return {"index": index, "text": "x", "logprobs": {"top_logprobs": [top]}}


def test_every_beginning_is_asked_in_one_request() -> None:
    """From the first that counts to the last but one token, with the tokens that may follow, each once."""
    asked = json.loads(beginnings_body("m", TOKENS, 2))
    assert asked["prompt"] == [[5, 6], [5, 6, 7]]
    assert (asked["logprob_token_ids"], asked["max_tokens"]) == ([6, 7], 1)


def test_each_token_has_the_probability_after_its_beginning() -> None:
    """In the order of the text, however the choices come."""
    reply = {"choices": [choice(1, t6=-2.0, t7=-9.0), choice(0, t6=-8.0, t7=-1.0)]}
    assert read_logprobs(json.dumps(reply).encode(), TOKENS, 2) == [-1.0, -2.0]


@pytest.mark.parametrize(
    "reply",
    [b"nonsense", b"[]", b'{"choices": []}', b'{"choices": [{"index": 0, "logprobs": null}]}',
     json.dumps({"choices": [choice(0, t7=-1.0), choice(1, t7=-1.0)]}).encode()],
)  # fmt: skip
def test_a_reply_that_does_not_tell_is_malformed(reply: bytes) -> None:
    """Also one that leaves out a single token: part of a text has no probability."""
    with pytest.raises(CompletionError) as found:
        read_logprobs(reply, TOKENS, 2)
    assert found.value.kind == "malformed"


def test_a_text_of_too_many_tokens_is_not_asked() -> None:
    """Servers take only so many."""
    with pytest.raises(CompletionError, match="too long"):
        beginnings_body("m", list(range(200)), 1)
    with pytest.raises(CompletionError, match="has no tokens"):
        read_tokens(b'{"count": 3}')
