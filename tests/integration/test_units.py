"""Both roles at work under the system calls and the memory that their systemd units allow."""

import asyncio
import signal
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from tests.support import required
from tests.support.confined import allowed_calls
from tests.support.integration.serving import READY_SECONDS, Command, process_of
from tests.support.processes import BIASGATE, free_port
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.long

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


def confined(role: str, config: Path, *more: str) -> AbstractAsyncContextManager[Command]:
    """A role as its unit runs it."""
    required.program("systemd-analyze", package="systemd", kind="SYSTEMD")
    unit = UNITS / f"biasgate-{role}.service"
    confining = (sys.executable, "-m", "tests.support.confined", str(unit))
    return process_of(*confining, *BIASGATE, role, "--config", str(config), *more)


@pytest.mark.parametrize("store_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
async def test_both_roles_work_as_their_units_confine_them(tmp_path: Path, store_url: str) -> None:
    """An exchange is relayed, stored, embedded by a local model and audited; both end in order."""
    metrics = free_port()
    async with running_simulator() as upstream:
        config = tmp_path / "biasgate.toml"
        config.write_text(
            f'[store]\nurl = "{store_url}"\n[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\n'
            f"[server]\nworkers = 2\nauditor_metrics_port = {metrics}\n"
            "[sampling]\nrate = 1.0\n"
            '[auditors.judge]\nmodel = "simulated-judge"\n[auditors.embedding]\nmodel = "minilm"\n'
        )
        async with confined("gateway", config, "--port", "0") as gateway, confined("auditor", config) as auditor:
            ready = await gateway.line("biasgate is ready")
            root = ready.split("OpenAI base URL ")[1].split("/v1,")[0]
            asked = {"model": "simulated", "messages": [{"role": "user", "content": "Should a woman lead the team?"}]}
            async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=60) as http:
                answer = await http.post("/v1/chat/completions", json=asked)
                async with asyncio.timeout(READY_SECONDS):
                    while not (ledger := (await http.get("/live/ledger")).json()["outcomes"]).get("audited"):
                        assert auditor.process.returncode is None, auditor.lines
                        await asyncio.sleep(0.2)
                page = await http.get("/console")
                estimates = (await http.get("/live/estimates")).json()

    assert (answer.status_code, page.status_code) == (200, 200)
    assert ledger == {"audited": 1}
    assert {"judge", "embedding"} <= {one["auditor"] for one in estimates}
    assert (gateway.process.returncode, auditor.process.returncode) == (0, 0)


def test_what_a_unit_leaves_out_ends_the_process() -> None:
    """The filter is in force: a service's process that asks for a new root is killed, and one that reads is not."""
    required.program("systemd-analyze", package="systemd", kind="SYSTEMD")
    unit = UNITS / "biasgate-gateway.service"
    assert {"read", "openat", "sched_setscheduler"} <= allowed_calls(unit.read_text())
    assert not {"chroot", "mount", "ptrace", "reboot", "bpf"} & allowed_calls(unit.read_text())
    ends = [
        subprocess.run(
            [sys.executable, "-m", "tests.support.confined", str(unit), sys.executable, "-c", program], check=False
        ).returncode
        for program in ("import os; os.listdir('/')", "import os; os.chroot('/')")
    ]
    assert ends == [0, -signal.SIGSYS]
