"""Nothing listens beyond the loopback interface without keys, unless the configuration says that it shall."""

from typing import Any

import pytest

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.processes.usable import require_keys_off_loopback

KEYS = [{"name": "app", "key_env": "X"}]
DATA, CONTROL = "the data plane has no [[keys]]", "the control plane has neither server.admin_key_env nor"


def refusal(host: str, server: dict[str, Any], **sections: Any) -> str:
    try:
        require_keys_off_loopback(validate({"server": {"host": host, **server}, **sections}))
    except ConfigError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "::ffff:192.0.2.7"])
def test_an_open_plane_is_named(host: str) -> None:
    """Each plane without a key is in the line, with three ways out; one key does not do for the other plane."""
    both = refusal(host, {})
    admin_only = refusal(host, {"admin_key_env": "X"})
    keys_only = refusal(host, {}, keys=KEYS)

    assert DATA in both
    assert CONTROL in both
    assert f'host "{host}"' in both
    assert "server.allow_open = true" in both
    assert (DATA in admin_only, CONTROL in admin_only) == (True, False)
    assert (DATA in keys_only, CONTROL in keys_only) == (False, True)


@pytest.mark.parametrize(
    "server", [{"admin_key_env": "X"}, {"control_keys": [{"name": "v", "key_env": "X"}]}], ids=["admin", "viewer"]
)
def test_with_keys_for_both_it_may(server: dict[str, Any]) -> None:
    """Any control key will do."""
    assert refusal("0.0.0.0", server, keys=KEYS) == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "::ffff:127.0.0.1"])
def test_loopback_needs_none(host: str) -> None:
    """Whoever reaches it is on this machine."""
    assert refusal(host, {}) == ""


def test_allow_open() -> None:
    """An answer to the question is taken."""
    assert refusal("0.0.0.0", {"allow_open": True}) == ""
