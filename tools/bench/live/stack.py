"""What is measured: a real vLLM, a gateway without audits, a gateway and its auditor, each a process of its own."""

import contextlib
import json
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.auditor.suite_runs import HEARTBEAT_SECONDS
from tests.support.processes import BIASGATE, free_port, running
from tests.support.vllm.wire import Recorder, recording
from tools.bench.gateway.arena import Runner
from tools.soak.backends import Backend

DRAIN_SECONDS = 60.0
FIRST_REPLY_SECONDS = 180.0
"""On a GPU vLLM compiles kernels at the first request that wants log-probabilities."""
SECRET = "BIASGATE_BENCH_SECRET"


class Stack:
    """Everything that is up. The auditor stands still except in the block of `auditing`."""

    def __init__(self, backend: Backend, plain: Runner, audited: Runner, auditor: Runner, recorder: Recorder) -> None:
        self.backend = backend
        self.plain = plain
        """The gateway that samples nothing."""
        self.audited = audited
        self.auditor = auditor
        self._recorder = recorder

    @contextlib.contextmanager
    def auditing(self) -> Iterator[None]:
        """Lets the auditor work until the block ends."""
        self.auditor.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.auditor.signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def suite_run(self, suite: str, samples: int) -> Iterator[str]:
        """A suite run on its embedded items until the block ends, then cancelled; yields its id once it asks."""
        asked = {"suites": [suite], "model": self.backend.model, "data": "embedded", "samples": samples}
        run_id = self.call("POST", "/audits", asked)["id"]
        deadline = time.monotonic() + FIRST_REPLY_SECONDS
        while not self.replies(run_id):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the run of {suite} has no reply after {FIRST_REPLY_SECONDS:.0f} s: see the auditor's log"
                )
            time.sleep(0.2)
        try:
            yield run_id
        finally:
            with contextlib.suppress(urllib.error.HTTPError):  # it may be at its end
                self.call("POST", f"/audits/{run_id}/cancel")
            time.sleep(HEARTBEAT_SECONDS + 1.0)  # when the auditor has heard of it

    def replies(self, run_id: str) -> int:
        """How many replies a suite run has."""
        return int(self.call("GET", f"/audits/{run_id}")["progress"]["done"])

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The control plane's answer as JSON."""
        request = urllib.request.Request(
            self.audited.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def probes(self) -> Counter[tuple[str, object]]:
        """Requests that auditors and suites sent to vLLM so far, by what they ask and their priority on the wire."""
        found: Counter[tuple[str, object]] = Counter()
        for tape in list(self._recorder.tapes):
            for request, _ in tape.exchanges():
                if request.path.endswith(b"/chat/completions"):
                    body = request.json()
                    found["judge" if "response_format" in body else "question", body.get("priority")] += 1
        return found

    def evictions(self) -> dict[str, float]:
        """The auditor's counts of requests that it cut off, and of their wasted tokens, by name and labels."""
        with urllib.request.urlopen(f"{self.auditor.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        names = ("biasgate_audits_evicted_total", "biasgate_audit_tokens_wasted_total")
        samples = (line.rsplit(" ", 1) for line in lines if line.startswith(names))
        return {name: float(value) for name, value in samples}

    def settle(self) -> None:
        """Waits until vLLM has nothing left to do. Raises RuntimeError when it does not come to rest."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._in_vllm() > 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"vLLM still has {self._in_vllm():.0f} requests after {DRAIN_SECONDS:.0f} s")
            time.sleep(0.2)

    def _in_vllm(self) -> float:
        with urllib.request.urlopen(f"{self.backend.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting{")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


@contextlib.contextmanager
def stack(backend: Backend, home: Path, rate: float, extra: str) -> Iterator[Stack]:
    """Gateways and auditor in front of a running vLLM; a folder each under `home`, with the logs.

    Args:
        backend: the running vLLM.
        home: empty directory.
        rate: share of live exchanges that is sampled.
        extra: further configuration of the auditors, as TOML.
    """
    with contextlib.ExitStack() as parts:
        recorder = parts.enter_context(recording(backend.url))
        store = f'[store]\nurl = "sqlite:///{home}/live.db"\n'
        sampled = f'[sampling]\nrate = {rate}\nsecret_env = "{SECRET}"\n{extra}'
        unsampled = f'[store]\nurl = "sqlite:///{home}/plain.db"\n[sampling]\nrate = 0.0\n'
        plain = _up(parts, home, "gateway", "plain", backend.url, unsampled)
        audited = _up(parts, home, "gateway", "audited", backend.url, store + sampled)
        auditor = _up(parts, home, "auditor", "auditor", recorder.origin, store + sampled)
        yield Stack(backend, plain, audited, auditor, recorder)
        auditor.signal(signal.SIGCONT)


def _up(parts: contextlib.ExitStack, home: Path, role: str, name: str, upstream: str, toml: str) -> Runner:
    folder = home / name
    folder.mkdir()
    port = free_port()
    listening = f"auditor_metrics_port = {port}" if role == "auditor" else f"port = {port}"
    config = folder / "biasgate.toml"
    config.write_text(f'[server]\n{listening}\n[[upstreams]]\nname = "cpu"\nbase_url = "{upstream}"\n{toml}')
    url = f"http://127.0.0.1:{port}"
    environ = {"BIASGATE_HOME": str(home / "cache"), SECRET: "of-the-benchmark"}
    process = parts.enter_context(
        running(
            [*BIASGATE, role, "--config", str(config)],
            ready_url=f"{url}/readyz",
            log=folder / "log",
            environ=environ,
            within_seconds=90,
        )
    )
    return Runner(name, url, process.pid)
