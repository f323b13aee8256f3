"""Reading the list of models that a server serves."""

from typing import Any

import pytest

from auditors.clients.model_list import count_unread, fingerprint_of, read_models
from auditors.types import CompletionError


def entry(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 7, "owned_by": "vllm", "root": name, **fields}


def test_entries() -> None:
    """Each entry with a name is kept whole, in order; without a name, or no object, it is left out and counted."""
    body = b'{"object":"list","data":[{"id":"b","root":"r"},{"root":"x"},{"id":3},{"id":"a"}]}'
    assert read_models(body) == [{"id": "b", "root": "r"}, {"id": "a"}]
    body = b'{"data":["m",{"id":"a"},null,7,["b"],{"root":"x"}]}'
    assert (read_models(body), count_unread(body)) == ([{"id": "a"}], 5)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"data":null}', b'{"data":["m"]}'])
def test_no_list(body: bytes) -> None:
    """Anything else is malformed, and never an empty list."""
    with pytest.raises(CompletionError, match="not a list of models") as caught:
        read_models(body)

    assert caught.value.kind == "malformed"


def test_fingerprint() -> None:
    """It changes with the name, root or context length of a model, not with the time of asking nor with the order."""
    one, other = entry("x"), entry("y")

    assert fingerprint_of([one, other]) == fingerprint_of([entry("y", created=8), entry("x", created=9)])
    assert len({fingerprint_of([e]) for e in (one, other, entry("x", root="z"), entry("x", max_model_len=1))}) == 4
