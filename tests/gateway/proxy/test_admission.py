"""Who passes the gate, and with which rights."""

import gc
import gzip
import zlib
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest

from gateway.config.loading import validate
from gateway.errors import ConfigError
from gateway.proxy.admission import Admission, Client, RequestHead
from gateway.proxy.body import RequestBody
from gateway.proxy.refusals import Refusal


def admission(monkeypatch: pytest.MonkeyPatch, **key: object) -> Admission:
    monkeypatch.setenv("APP_KEY", "s3cret")
    return Admission(
        validate({"keys": [{"name": "app", "key_env": "APP_KEY", **key}], "server": {"max_body_bytes": 10}})
    )


def refused(result: Client | Refusal) -> tuple[int, str]:
    assert isinstance(result, Refusal)
    return result.status, result.code


class TestAdmission:
    @pytest.mark.parametrize(
        "header",
        [(b"authorization", b"Bearer s3cret"), (b"authorization", b"bearer  s3cret"), (b"x-api-key", b"s3cret")],
    )
    def test_known_keys(self, monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes]) -> None:
        """A key passes as a bearer token or as x-api-key, with its own rights."""
        client = admission(monkeypatch, may_set_priority=True, may_opt_out=False).admit(RequestHead([header]), 0.0)

        assert client == Client("app", may_opt=False, may_set_priority=True)

    @pytest.mark.parametrize(
        "headers",
        [
            [],
            [(b"authorization", b"Bearer wrong")],
            [(b"authorization", b"Bearer ")],
            [(b"authorization", b"Basic s3cret")],
            [(b"x-api-key", b"")],
            [(b"authorization", b"s3cret")],
        ],
    )
    def test_unknown_keys(self, monkeypatch: pytest.MonkeyPatch, headers: list[tuple[bytes, bytes]]) -> None:
        """No key, a wrong key and a wrong scheme are refused alike."""
        assert refused(admission(monkeypatch).admit(RequestHead(headers), 0.0)) == (401, "unauthorized")

    def test_open_gateway(self) -> None:
        """Without [[keys]] everybody passes, and nobody may jump the queue."""
        client = Admission(validate({})).admit(RequestHead([(b"authorization", b"Bearer any")]), 0.0)

        assert isinstance(client, Client)
        assert not client.may_set_priority

    @pytest.mark.parametrize("coding", [b"br", b"BR", b"zstd", b"identity, gzip", b"gzip, gzip"])
    @pytest.mark.parametrize("keys", [True, False])
    def test_compressed_bodies(self, monkeypatch: pytest.MonkeyPatch, coding: bytes, keys: bool) -> None:
        """What is not decoded here would pass every rule unseen; without a body the header says nothing."""
        gate = admission(monkeypatch) if keys else Admission(validate({}))
        key, header = (b"x-api-key", b"s3cret"), (b"content-encoding", coding)
        for framing in ((b"content-length", b"7"), (b"transfer-encoding", b"chunked")):
            assert refused(gate.admit(RequestHead([key, header, framing]), 0.0)) == (
                415,
                "unsupported_content_encoding",
            )
            # Also where it is to be taken out as a header of this connection alone, or a second one says otherwise.
            more = [(b"connection", b"content-encoding"), (b"content-encoding", b"identity")]
            assert isinstance(gate.admit(RequestHead([key, header, framing, *more]), 0.0), Refusal)
        assert isinstance(gate.admit(RequestHead([key, header, (b"content-length", b"0")]), 0.0), Client)
        plain = RequestHead([key, (b"content-encoding", b"identity"), (b"content-length", b"7")])
        assert isinstance(gate.admit(plain, 0.0), Client)
        assert b"content-encoding: identity\r\n" in plain.lines

    @pytest.mark.parametrize(
        ("plain", "status"),
        [
            (b'{"model": "m", "stream": true}', None),
            (b"hello women", None),
            (b'{"priority": 1, "model": "m"}', 415),
            (b'{"prior\\u0069ty": 1}', 415),
            (b'{"model": "alias"}', 415),
            (b'{"priority": NaN}', 400),
            (b"\xef\xbb\xbf" + b'{"priority": 1}', 400),
            (b" " * 5_000_000, 415),
            (b'{"x": "%b"}' % (b"\\n" * 1_500_000), 415),
        ],
        ids=range(9),
    )
    def test_what_is_in_a_compressed_body(self, plain: bytes, status: int | None) -> None:
        """It is looked at, whole or cut off, in one member or several, and relayed as it is or refused."""
        gate = Admission(validate({"aliases": {"alias": "real"}}))
        half = len(plain) // 2
        members = gzip.compress(plain[:half]) + gzip.compress(plain[half:])
        for content, coding in (
            *((body, b"gzip") for body in (gzip.compress(plain), members, gzip.compress(plain)[:-8])),
            (gzip.compress(plain) + b"more", b"x-gzip"),
            (zlib.compress(plain), b"deflate"),
            (zlib.compress(plain)[2:-4], b"deflate"),
        ):
            head = RequestHead([(b"content-encoding", coding), (b"content-length", b"9")])
            client = gate.admit(head, 0.0)
            assert isinstance(client, Client)
            body = gate.read(content, client, head)
            if status is None:
                assert isinstance(body, RequestBody)
                named = ("m", True) if plain.startswith(b"{") else (None, False)
                assert (body.content, (body.model, body.stream)) == (content, named)
            else:
                assert isinstance(body, Refusal)
                assert body.status == status

    def test_two_keys_of_the_same_value(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whose rights such a key has would be an accident, so it is a configuration error without the value."""
        monkeypatch.setenv("KEY_A", "s3cret")
        monkeypatch.setenv("KEY_B", "s3cret")
        keys = [{"name": "a", "key_env": "KEY_A"}, {"name": "b", "key_env": "KEY_B"}]

        with pytest.raises(ConfigError, match='keys "a" and "b"') as caught:
            Admission(validate({"keys": keys}))
        assert "s3cret" not in str(caught.value)

    def test_two_keys_of_the_same_name(self) -> None:
        """Exchanges and limits are told apart by the key's name."""
        with pytest.raises(ConfigError, match='two keys are named "a"'):
            validate({"keys": [{"name": "a", "key_env": "KEY_A"}, {"name": "a", "key_env": "KEY_B"}]})

    def test_no_key_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a presented key is compared with is a salted digest: no time of a comparison tells a byte of a key."""
        gate = admission(monkeypatch)
        for header in ((b"authorization", b"Bearer s3cret"), (b"x-api-key", b"s3cret"), (b"x-api-key", b"s3crex")):
            gate.admit(RequestHead([header]), 0.0)
        held = [one for one in gc.get_referents(*reachable(gate)) if isinstance(one, bytes | bytearray | str)]

        assert any(isinstance(one, bytes) and len(one) == 32 for one in held)
        assert [one for one in held if "s3cre" in (one if isinstance(one, str) else one.decode("latin-1"))] == []

    def test_salts_differ(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A digest of one process says nothing about where a key lies in another's table."""
        tables = [set(admission(monkeypatch)._clients) for _ in range(2)]

        assert tables[0].isdisjoint(tables[1])


def reachable(start: object) -> list[object]:
    """Every object that can be reached from one, short of modules, classes and functions."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, ModuleType | type | FunctionType | BuiltinFunctionType):
            found[id(one)] = one
            waiting += gc.get_referents(one)
    return list(found.values())
