"""`config check`, the three servers and a reload refuse the same configurations, each in the same line."""

import argparse
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.config import run as check
from gateway.config.loading import load
from gateway.errors import GatewayError
from gateway.processes.reload import change_of
from gateway.processes.roles import Placement, run_auditor, run_both, run_gateway
from gateway.processes.usable import Role

UPSTREAM = '[[upstreams]]\nname = "u"\nbase_url = "http://127.0.0.1:9"\n'
OFF = "[auditors.embedding]\nenabled = false\n"
BOTH: tuple[Role, ...] = ("gateway", "auditor")
CASES = [
    ("", ("gateway",), "no upstream is configured"),
    ('[server]\nhost = "0.0.0.0"\n' + UPSTREAM, ("gateway",), "would be open to all who"),
    ('[store]\nurl = "sqlite:////nonexistent/b.db"\n' + UPSTREAM, BOTH, "cannot be opened: check that the directory"),
    ('[store]\nurl = "sqlite:///{tmp}/text.db"\n' + UPSTREAM, BOTH, "is not an SQLite database"),
    ('[store]\nurl = "sqlite:///{tmp}/cut.db"\n' + UPSTREAM, BOTH, "the file is damaged (it has 8192 bytes of"),
    ('[store]\nurl = "postgresql://u:secret@h:port/db"\n' + UPSTREAM, BOTH, "not a database URL"),
    ('[store]\nkeep_text = "never"\n' + UPSTREAM, BOTH, "needs a key that gateway and auditor share"),
    ('[store]\nencryption_key_env = "PATH"\n' + UPSTREAM, BOTH, "not a Fernet key"),
    (
        '[server]\nmetrics_dir = "/proc/version/none"\n' + UPSTREAM,
        ("gateway",),
        'server.metrics_dir "/proc/version/none" cannot be',
    ),
    ('[[keys]]\nname = "a"\nkey_env = "NOT_SET"\n' + UPSTREAM, ("gateway",), '"NOT_SET" (keys.a.key_env)'),
    ('[audits]\nbundle_key_env = "NOT_SET"\n' + UPSTREAM, ("gateway",), '"NOT_SET" (audits.bundle_key_env)'),
    ('[audits]\ncanary_webhook_env = "NOT_SET"\n' + UPSTREAM, ("auditor",), '"NOT_SET" (audits.canary_webhook_env)'),
    ('[audits]\ncanary_webhook_env = "PATH"\n' + UPSTREAM, ("auditor",), "must be a URL that starts with http"),
    (f'{UPSTREAM}api_key_env = "NOT_SET"\n', BOTH, '"NOT_SET" (upstreams.u.api_key_env)'),
    ('[auditors.embedding]\nmodel = "./none"\n' + UPSTREAM, ("auditor",), 'embedder "./none": no such dir'),
    ('[auditors.embedding]\nbase_url = "http://e"\n' + UPSTREAM, ("auditor",), "base_url is set but model is not"),
    ("[auditors.plugins.none_such]\n" + UPSTREAM, ("auditor",), "no installed distribution brings"),
    ('[auditors.judge]\nreference_set = "none.json"\n' + UPSTREAM, ("auditor",), "needs auditors.judge.model"),
    ('[audits]\non_model_change = ["stereset"]\n' + UPSTREAM, ("auditor",), "stereset"),
    ('[export]\nurl = "nosuch://x"\n' + UPSTREAM, ("auditor",), 'fsspec knows no protocol "nosuch"'),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.db").write_text("not a database at all, but some text that is longer than its header" * 3)
    connection = sqlite3.connect(tmp_path / "cut.db")
    connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000));")
    connection.close()
    with (tmp_path / "cut.db").open("r+b") as file:
        file.truncate(8192)
    return tmp_path


@pytest.mark.parametrize(("text", "roles", "words"), CASES)
def test_the_same_line_from_each(text: str, roles: tuple[Role, ...], words: str, folder: Path) -> None:
    """What a server refuses at its start, `config check` refuses for it, and for no other; nothing is made."""
    path = folder / "biasgate.toml"
    path.write_text(text.replace("{tmp}", str(folder)))
    before = sorted(folder.iterdir())
    config, placement = load(path, environ={}), Placement(config_path=path, port=0)

    def assert_refused(role: Role) -> None:
        with pytest.raises(GatewayError) as raised:
            check(argparse.Namespace(config=path, role=role))
        starts: dict[Role, Callable[[], int]] = {
            "serve": lambda: run_both(config, placement),
            "gateway": lambda: run_gateway(config, placement),
            "auditor": lambda: run_auditor(path),
        }
        with pytest.raises(GatewayError) as refused:
            starts[role]()
        assert str(raised.value) == str(refused.value)
        assert words in str(raised.value)
        assert "secret" not in str(raised.value)
        assert "\n" not in str(raised.value)

    for role in roles:
        assert_refused(role)
    if 'keep_text = "never"' not in text:  # `serve` draws a key
        assert_refused("serve")
    for role in set(BOTH) - set(roles):
        check(argparse.Namespace(config=path, role=role))
    assert sorted(folder.iterdir()) == before


SECRET_ADDRESSES = """
[[upstreams]]
name = "u"
base_url = "http://127.0.0.1:9/v1?api_key=s3cret"
[auditors.judge]
base_url = "https://s3cret@judge/v1?key=s3cret"
model = "m"
[telemetry]
otlp_endpoint = "http://127.0.0.1:4318/?token=s3cret"
[export]
url = "file:///srv/export?sig=s3cret"
"""


def test_no_secret_of_an_address_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in what holds, nor in a refusal, whatever is wrong beside it."""
    (folder / "biasgate.toml").write_text(SECRET_ADDRESSES)
    assert main(["config", "check"]) == 0
    for wrong in ("://127.0.0.1:9/v1", "s://judge", "://127.0.0.1:4318", "file:///srv"):
        for other in ("tp" + wrong, "nosuch://x", "http://h:port"):
            (folder / "biasgate.toml").write_text(SECRET_ADDRESSES.replace("htt" + wrong, other).replace(wrong, other))
            main(["config", "check"])
    said = "".join(capsys.readouterr())
    assert "s3cret" not in said
    assert '"base_url": "http://127.0.0.1:9/v1?api_key=***"' in said
    assert "biasgate: upstream u is asked at http://127.0.0.1:9/v1?api_key=***/v1/..." in said


def test_a_reload_asks_for_what_its_own_process_reads(folder: Path) -> None:
    """An auditor on a machine of its own has no client's key, and takes over a file that names one."""
    (folder / "biasgate.toml").write_text(OFF + UPSTREAM)
    current = load(None, environ={})
    (folder / "biasgate.toml").write_text('[[keys]]\nname = "a"\nkey_env = "NOT_SET"\n' + OFF + UPSTREAM)
    assert change_of(current, load(None, environ={}), "auditor").sections == ["keys"]
    with pytest.raises(GatewayError, match=r'"NOT_SET" \(keys\.a\.key_env\): they were not set at the start'):
        change_of(current, load(None, environ={}), "gateway")
