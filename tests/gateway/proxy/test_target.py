"""Which targets are relayed."""

import pytest

from gateway.proxy.target import app_target, head_without_upgrade, path_of, relay_target


@pytest.mark.parametrize(
    "url", [b"/v1", b"/v1/", b"/v1?x", b"/v1/a/b?c=/../d", b"/v1/models/org/name.v1..5", b"/v1/a%2Fb", b"/v1/.hidden"]
)
def test_inside(url: bytes) -> None:
    """Everything under /v1 is relayed as it was asked for."""
    assert relay_target(url) == url


@pytest.mark.parametrize(
    "url",
    [
        b"/",
        b"/v11",
        b"/v2/x",
        b"/V1/x",
        b"//v1/x",
        b"*",
        b"/v1/../metrics",
        b"/v1/%2e%2E/metrics",
        b"/v1/a/..",
        b"/v1/./a",
    ],
)
def test_outside(url: bytes) -> None:
    """Everything else, and every path that could lead out of /v1, is not."""
    assert relay_target(url) is None


@pytest.mark.parametrize("url", [b"/tokenize", b"/tokenize?x=/../y", b"/v1/models"])
def test_listed(url: bytes) -> None:
    """A listed path is relayed too, with any query."""
    assert relay_target(url, {b"/tokenize"}) == url
    assert relay_target(b"http://gateway" + url, {b"/tokenize"}) == url


@pytest.mark.parametrize(
    "url", [b"/tokenize/", b"/tokenize/x", b"//tokenize", b"/Tokenize", b"/%74okenize", b"/x/../tokenize", b"/livez"]
)
def test_not_quite_listed(url: bytes) -> None:
    """Nothing but the very path is."""
    assert relay_target(url, {b"/tokenize"}) is None


def test_absolute_form() -> None:
    """A proxy-style target is relayed in origin form."""
    assert relay_target(b"http://gateway:80/v1/models?x=1") == b"/v1/models?x=1"
    assert relay_target(b"http://gateway/other") is None


def test_declined_upgrade() -> None:
    """The head is the same but for the wish to upgrade."""
    headers = [
        (b"connection", b"Upgrade, HTTP2-Settings,close"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"A"),
        (b"a", b"b"),
    ]

    assert (
        head_without_upgrade(b"POST", b"/v1/x", "1.1", headers)
        == b"POST /v1/x HTTP/1.1\r\nconnection: close\r\na: b\r\n\r\n"
    )


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
