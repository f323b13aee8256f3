"""What running processes leave to others of the machine: no file, no core dump, no environment full of keys."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.store.database import Database
from tests.support.commands import command, stereoset
from tests.support.integration.auditing import until
from tests.support.integration.serving import children_of, serving, write_config
from tests.support.simulated import running_simulator

SECRETS = {name: f"canary-{name.lower()}" for name in ("UP_KEY", "APP_KEY", "ADMIN_KEY", "VIEWER_KEY", "SAMPLING")}
WEBHOOK = {"WEBHOOK": "http://127.0.0.1:9/canary-webhook"}
COLLECTOR = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic canary-collector"}
FOREIGN = {"AWS_SECRET_ACCESS_KEY": "canary-foreign", "SOME_TOKEN": "canary-token"}
SETTINGS = """
metrics_dir = "{home}/deep/counts"
admin_key_env = "ADMIN_KEY"
[[server.control_keys]]
name = "dashboard"
key_env = "VIEWER_KEY"
[[keys]]
name = "app"
key_env = "APP_KEY"
requests_per_minute = 100
[sampling]
rate = 1.0
secret_env = "SAMPLING"
[auditors.embedding]
enabled = false
[auditors.judge]
model = "simulated-judge"
[audits]
canary_webhook_env = "WEBHOOK"
[telemetry]
otlp_endpoint = "http://127.0.0.1:9"
evaluation_signal = "traces"
"""


@pytest.fixture
def no_umask() -> Iterator[None]:
    """As a system may be set up on which everybody may do everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*roots: Path) -> dict[str, str]:
    """Path and mode of everything that others may open, but for the roots themselves."""
    found = {}
    for path in (path for root in roots for path in root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & 0o077:
            found[str(path)] = oct(mode)
    return found


def limits(pid: int) -> tuple[list[str], str]:
    """Soft and hard limit of a core dump, and what would be in it."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("Max core file size")]
    return line.split()[4:6], Path(f"/proc/{pid}/coredump_filter").read_text().strip()


def environment(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.usefixtures("no_umask")
async def test_a_service_keeps_to_itself(tmp_path: Path) -> None:
    """All files are the user's alone, no process can be dumped, and each role has its own secrets only."""
    temporary = tmp_path / "tmp"
    temporary.mkdir(mode=0o700)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    async with running_simulator() as upstream:
        config = write_config(home, upstream, SETTINGS.format(home=home))
        config.write_text(config.read_text().replace('models = ["m"]', 'api_key_env = "UP_KEY"'))
        config.chmod(0o600)
        environ = SECRETS | FOREIGN | WEBHOOK | COLLECTOR | {"TMPDIR": str(temporary)}
        async with (
            serving("serve", "--config", str(config), environ=environ) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http,
        ):
            await running.line("auditor is ready")
            body = {"model": "simulated", "messages": [{"role": "user", "content": "Do women lead?"}]}
            answer = await http.post("/v1/chat/completions", json=body, headers={"x-api-key": SECRETS["APP_KEY"]})
            viewer = {"authorization": f"Bearer {SECRETS['VIEWER_KEY']}"}

            async def is_audited() -> bool:
                return "audited" in (await http.get("/live/ledger", headers=viewer)).json()["outcomes"]

            await until(is_audited, within_seconds=60)
            children = children_of(running.process.pid)
            pids = [running.process.pid, *(pid for some in children.values() for pid in some)]
            open_to_others = modes(home, temporary)
            names = {path.name for path in home.rglob("*")}
            dumps = {pid: limits(pid) for pid in pids}
            [writer], [auditor] = children["writer"], children["auditor"]
            given = {"writer": environment(writer), "auditor": environment(auditor)}

    assert answer.status_code == 200
    assert {"biasgate.db", "biasgate.db-wal", "biasgate.db-shm", "counts"} <= names
    assert [name for name in names if name.endswith(".limit")]
    assert open_to_others == {}
    assert len(pids) == 4
    assert set(map(str, dumps.values())) == {str((["0", "0"], "00000000"))}
    planted = SECRETS | FOREIGN | WEBHOOK | COLLECTOR
    held = {role: {name for name in planted if name in variables} for role, variables in given.items()}
    assert held == {"writer": set(), "auditor": {"UP_KEY", "SAMPLING", *WEBHOOK, *COLLECTOR}}
    assert not [name for name in given["writer"] if name.startswith("BIASGATE_")]


@pytest.mark.usefixtures("no_umask")
async def test_a_run_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts, replies, result and report of `audit run`, and a report beside them: 0600 in directories of 0700."""
    monkeypatch.chdir(tmp_path)
    async with running_simulator() as url:
        for arguments in (
            stereoset(url, "--limit", "5", "--out", "deep/run", "--quiet"),
            ("audit", "report", "deep/run", "--out", "report.html"),
            ("suites", "--items", "stereoset", "--data", "embedded", "--out", "items.jsonl"),
        ):
            assert (await command(*arguments))[0] == 0

    files = {path.name for path in (tmp_path / "deep" / "run").iterdir()}
    assert files == {"run.json", "session.json", "items.jsonl", "responses.jsonl", "result.json", "report.html"}
    assert (tmp_path / "report.html").exists()
    assert modes(tmp_path) == {}


@pytest.mark.usefixtures("no_umask")
async def test_a_new_store_is_private_whoever_opens_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A program that opens one as a library gets 0600 too; a file that others may read is named once, with a remedy."""
    url = f"sqlite:///{tmp_path}/biasgate.db"
    await (await Database.open(url)).close()
    was = modes(tmp_path)
    quiet = [record for record in caplog.records if "chmod" in record.message]
    (tmp_path / "biasgate.db").chmod(0o644)
    await (await Database.open(url)).close()

    assert (was, quiet) == ({}, [])
    assert [record.message for record in caplog.records if f"chmod 600 {tmp_path}/biasgate.db*" in record.message]
