"""Which targets are relayed."""

import pytest

from gateway.proxy.target import app_target, path_of, relay_target

INSIDE = b"/v1 /v1/ /v1?x /v1/a/b?c=/../d /v1/models/org/name.v1..5 /v1/a%2Fb /v1/.hidden /tokenize /tokenize?x=/../y"
OUTSIDE = b"/ /v11 /v2/x /V1/x //v1/x * /v1/../metrics /v1/%2e%2E/metrics /v1/a/.. /v1/./a http://gateway/other"
NOT_QUITE_LISTED = b"/tokenize/ /tokenize/x //tokenize /Tokenize /%74okenize /x/../tokenize /livez"
LISTED = {b"/tokenize"}


@pytest.mark.parametrize("url", INSIDE.split())
def test_inside(url: bytes) -> None:
    """Everything under /v1, and a listed path, is relayed as it was asked for; a proxy-style target in origin form."""
    assert relay_target(url, LISTED) == url
    assert relay_target(b"http://gateway:80" + url, LISTED) == url


@pytest.mark.parametrize("url", [*OUTSIDE.split(), *NOT_QUITE_LISTED.split()])
def test_outside(url: bytes) -> None:
    """Everything else is not: every path that could lead out of /v1, and all but the very path that is listed."""
    assert relay_target(url, LISTED) is None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (b"/livez?x", b"/livez?x"),
        (b"http://h/livez", b"http://h/livez"),
        (b"http://h", b"/"),
        (b"http://h?x=1", b"/?x=1"),
        (b"*", b"*"),
    ],
)
def test_target_for_the_app(url: bytes, target: bytes) -> None:
    """uvicorn gets every target as it is, but for an absolute one without a path, at which it would fail."""
    assert app_target(url) == target


@pytest.mark.parametrize(
    ("path", "understood"),
    [
        (b"/v1/chat/completions", b"/v1/chat/completions"),
        (b"/v1/chat/%63ompletions", b"/v1/chat/completions"),
        (b"/v1/chat%2fcompletions", b"/v1/chat/completions"),
        (b"/v1//chat///completions/", b"/v1/chat/completions"),
        (b"/v1/%2Fmessages%2F", b"/v1/messages"),
        (b"/v1/chat/%2563ompletions", b"/v1/chat/%63ompletions"),
        (b"/v1/files/a%", b"/v1/files/a%"),
    ],
)
def test_path_as_upstreams_understand_it(path: bytes, understood: bytes) -> None:
    """Escapes are undone once, slashes are single."""
    assert path_of(path) == understood
