"""What the Compose file promises, checked on running containers."""

import json
import os
import signal
import time
import uuid
from collections.abc import Callable
from typing import Any

from tools.containers.compose import PROJECT, HealthTimer, Project
from tools.containers.images import describe
from tools.containers.load import crowd
from tools.containers.podman import Podman
from tools.containers.report import Report, require, wait_for

GATEWAY_IMAGE, AUDITOR_IMAGE = (f"localhost/{PROJECT}_{role}:latest" for role in ("gateway", "auditor"))
STREAMS = 24
TWO_GATEWAYS = "two-gateways"
RESTARTED_ONCE = ("vllm", "postgres", "auditor", "gateway", "prometheus", "alertmanager")
MEGABYTE = 1e6
QUESTION = "Should a woman or a man lead the team? Give your reasons."


def check_images(report: Report, project: Project, base: str) -> None:
    """Build both images through the Compose file and look into them."""
    podman = project.podman
    for service in ("gateway", "auditor"):
        with report.check(f"build {service}", essential=True) as row:
            project.compose("build", service, timeout=1500)
            images = podman.images()
            size, base_size = images[f"localhost/{PROJECT}_{service}:latest"], images[base]
            row.note = f"{size / MEGABYTE:.0f} MB, {(size - base_size) / MEGABYTE:.0f} MB more than its base"
    with report.check("the auditor's torch is a CPU build, the gateway has none") as row:
        row.note = run_python(podman, AUDITOR_IMAGE, "import torch; print(torch.__version__, torch.version.cuda)")
        require(row.note.endswith(" None"), f"torch {row.note}")
        absent = run_python(podman, GATEWAY_IMAGE, "import importlib.util as u; print(u.find_spec('torch'))")
        require(absent == "None", f"the gateway image has torch at {absent}")
    with report.check("images run as a user without rights, and hold no secrets"):
        for image in (GATEWAY_IMAGE, AUDITOR_IMAGE):
            configured = describe(podman, image)
            require(configured["User"] == "biasgate", f"{image} runs as {configured['User']!r}")
            require("KEY" not in str(configured["Env"]), f"{image} has {configured['Env']}")


def run_python(podman: Podman, image: str, program: str) -> str:
    """Return what a Python program prints in an image, without a network and on a read-only file system."""
    flags = ("--rm", "--read-only", "--network", "none", "--entrypoint", "python")
    return podman.run("run", *flags, image, "-c", program).strip()


def check_compose(report: Report, project: Project) -> None:
    """Start the project and check it while it runs."""
    with HealthTimer(project.podman):
        with report.check("up: every service runs and is healthy", essential=True) as row:
            started = time.monotonic()
            project.compose("up", "--detach", timeout=600)
            row.note = wait_until_healthy(project, long_running(project), started)
        check_confinement(report, project)
        check_keys(report, project)
        check_an_audit(report, project)
        check_monitoring(report, project)
    check_stop(report, project)
    check_kills(report, project)


def long_running(project: Project) -> list[str]:
    """Return the services of the default profile that do not end by themselves."""
    return [name for name in project.services if name not in ("gateway-b", "proxy")]


def wait_until_healthy(project: Project, services: list[str], started: float) -> str:
    """Wait for the health of each service's container, and return the seconds that each took since `started`."""
    podman, times = project.podman, {}
    waiting = list(services)
    deadline = time.monotonic() + 180
    while waiting and time.monotonic() < deadline:
        for name in list(waiting):
            state = podman.inspect(project.container(name))["State"]
            health = (state.get("Health") or state.get("Healthcheck") or {}).get("Status", "")
            if state["Running"] and health in ("healthy", ""):
                times[name] = time.monotonic() - started
                waiting.remove(name)
        time.sleep(0.2)
    logs = "\n".join(podman.run("logs", "--tail", "5", project.container(name), check=False) for name in waiting)
    require(not waiting, f"not healthy after 180 s: {', '.join(waiting)}\n{logs}")
    return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times.items())


def check_confinement(report: Report, project: Project) -> None:
    """Read what the kernel says of each container's first process."""
    podman = project.podman
    for name in long_running(project):
        with report.check(f"{name}: no capability, no new privileges, seccomp, read-only root"):
            container = project.container(name)
            lines = podman.run("exec", container, "cat", "/proc/1/status").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            require(int(status["CapEff"], 16) == 0, f"effective capabilities {status['CapEff']}")
            require(status["NoNewPrivs"] == "1", "new privileges are possible")
            require(status["Seccomp"] == "2", f"seccomp mode {status['Seccomp']}")
            mounts = podman.run("exec", container, "cat", "/proc/mounts").splitlines()
            (root,) = [line for line in mounts if line.split()[1] == "/"]
            require("ro" in root.split()[3].split(","), f"the root is mounted {root.split()[3]}")


def check_keys(report: Report, project: Project) -> None:
    """Try each plane with each key and without one."""
    with report.check("the data plane wants the application's key, the control plane its own") as row:
        answers: dict[str, int] = {}
        for key in ("", "BIASGATE_APP_KEY", "BIASGATE_VIEWER_KEY", "BIASGATE_ADMIN_KEY"):
            with project.client(key=key) as http:
                for path in ("/v1/models", "/metrics", "/live/ledger", "/live/exchanges"):
                    answers[f"{key or 'none'} {path}"] = http.get(path).status_code
        row.note = json.dumps(answers)
        expected = {
            "none /v1/models": (401,),
            "none /metrics": (401,),
            "none /live/ledger": (401,),
            "none /live/exchanges": (401,),
            "BIASGATE_APP_KEY /v1/models": (200,),
            "BIASGATE_APP_KEY /live/ledger": (401, 403),
            "BIASGATE_VIEWER_KEY /metrics": (200,),
            "BIASGATE_VIEWER_KEY /live/ledger": (200,),
            "BIASGATE_VIEWER_KEY /live/exchanges": (403,),
            "BIASGATE_ADMIN_KEY /live/exchanges": (200,),
        }
        wrong = {what: answers[what] for what, codes in expected.items() if answers[what] not in codes}
        require(not wrong, f"unexpected: {wrong}")
        row.note = f"{len(answers)} combinations"


def check_an_audit(report: Report, project: Project) -> None:
    """Send one request and wait for what both auditors made of it."""
    with report.check("a request is relayed, stored and audited by judge and embedder") as row:
        require_audited(project.client(key="BIASGATE_APP_KEY"), project.client(), within_seconds=120)
        row.note = "from the request to the last measurement"


def require_audited(application: Any, administrator: Any, *, within_seconds: float) -> None:
    """Post a chat request and wait until the judge and the embedding auditor have measured it.

    Raises: CheckFailed when one has not within `within_seconds`.
    """
    request_id = uuid.uuid4().hex
    body = {"model": "simulated", "messages": [{"role": "user", "content": QUESTION}]}
    reply = application.post("/v1/chat/completions", json=body, headers={"x-request-id": request_id})
    require(reply.status_code == 200, f"{reply.status_code} {reply.text[:300]}")
    require(reply.json()["choices"][0]["message"]["content"], "the answer is empty")

    def auditors() -> bool:
        listed = administrator.get("/live/exchanges", params={"request_id": request_id})
        require(listed.status_code == 200, f"{listed.status_code} {listed.text[:300]}")
        measured = {score["auditor"] for score in listed.json() if score.get("auditor")}
        require({"judge", "embedding"} <= measured, f"measured by {sorted(measured)}: {listed.text[:400]}")
        return True

    wait_for(auditors, within_seconds=within_seconds, waiting_for="both auditors' measurements")


def check_monitoring(report: Report, project: Project) -> None:
    """Ask Prometheus for its targets and rules, and whether it found Alertmanager."""
    with report.check("Prometheus reads all its targets, two of them with the viewer's key from its file") as row:
        targets = wait_for(lambda: all_up(project), within_seconds=60, waiting_for="targets that are up")
        row.note = ", ".join(sorted(targets))
    with report.check("Prometheus has the alert rules and found Alertmanager") as row:
        groups = json.loads(project.read_inside("http://prometheus:9090/api/v1/rules"))["data"]["groups"]
        faults = [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"]
        require(groups and not faults, f"{len(groups)} groups, rules in error: {faults}")
        managers = json.loads(project.read_inside("http://prometheus:9090/api/v1/alertmanagers"))["data"]
        require(len(managers["activeAlertmanagers"]) == 1, f"{managers}")
        project.read_inside("http://alertmanager:9093/-/ready")
        row.note = f"{sum(len(group['rules']) for group in groups)} rules"
    if "grafana" in project.services:
        with report.check("Grafana has its data source and the dashboards") as row:
            with project.client("grafana", key="") as http:
                http.auth = ("admin", project.keys["GRAFANA_PASSWORD"])
                boards = wait_for(
                    lambda: http.get("/api/search?type=dash-db").json(), within_seconds=90, waiting_for="dashboards"
                )
            row.note = ", ".join(board["title"] for board in boards)
    else:
        report.skip("Grafana has its data source and the dashboards", "no registry, and Debian has no Grafana")


def all_up(project: Project) -> list[str]:
    """Return the jobs of Prometheus' targets once every target is up, else nothing."""
    data = json.loads(project.read_inside("http://prometheus:9090/api/v1/targets"))["data"]
    jobs = [target["labels"]["job"] for target in data["activeTargets"]]
    down = {
        target["labels"]["job"]: target["lastError"] for target in data["activeTargets"] if target["health"] != "up"
    }
    require(not down, f"not up: {down}")
    return jobs


def check_stop(report: Report, project: Project) -> None:
    """Stop the only gateway while streams run, and start it again."""
    podman, container = project.podman, project.container("gateway")
    with report.check(f"stop the gateway under {STREAMS} streams: each is finished, exit code 0") as row:
        with crowd(address(project), project.keys["BIASGATE_APP_KEY"], clients=STREAMS) as streams:
            wait_for(lambda: streams.open >= STREAMS, within_seconds=60, waiting_for="open streams")
            streams.is_stopping = True
            started = time.monotonic()
            podman.run("stop", "--time", "60", container, timeout=90)
            row.note = f"stopped in {time.monotonic() - started:.1f} s"
        require(not streams.cut, f"{len(streams.cut)} cut, the first: {streams.cut[:1]}")
        code = podman.inspect(container)["State"]["ExitCode"]
        require(code == 0, f"exit code {code}: {podman.run('logs', '--tail', '5', container, check=False)}")
    with report.check("start the gateway again") as row:
        started = time.monotonic()
        podman.run("start", container)
        wait_until_ready(project)
        row.note = f"ready {time.monotonic() - started:.1f} s after the start"


def address(project: Project, service: str = "gateway") -> str:
    return f"http://127.0.0.1:{project.ports[service]}"


def wait_until_ready(project: Project, service: str = "gateway") -> None:
    with project.client(service, key="") as http:
        wait_for(lambda: http.get("/readyz").status_code == 200, within_seconds=90, waiting_for="/readyz")


def check_kills(report: Report, project: Project) -> None:
    """Kill the first process of each container with SIGKILL and wait for the whole to work again."""
    podman = project.podman
    for service in RESTARTED_ONCE:
        if service not in project.services:
            continue
        with report.check(f"kill -9 {service}: restarted, the next request is audited") as row:
            container = project.container(service)
            before = podman.process_id(container)
            os.kill(before, signal.SIGKILL)
            started = time.monotonic()
            wait_for(
                lambda c=container, b=before: podman.process_id(c) not in (0, b),  # type: ignore[misc]
                within_seconds=60,
                waiting_for="another process",
            )
            back = time.monotonic() - started
            wait_until_ready(project)
            wait_for(lambda: audited(project), within_seconds=150, waiting_for="an audit")
            row.note = f"container back after {back:.1f} s, audit done after {time.monotonic() - started:.1f} s"


def audited(project: Project) -> bool:
    require_audited(project.client(key="BIASGATE_APP_KEY"), project.client(), within_seconds=100)
    return True


def check_upgrade(report: Report, project: Project) -> None:
    """Add the second gateway and the proxy, and replace both gateways by another image under load."""
    podman = project.podman
    if "proxy" not in project.services:
        report.skip("upgrade two gateways under load", "no image of HAProxy")
        return
    with HealthTimer(podman):
        with report.check("a second gateway and the proxy join", essential=True) as row:
            started = time.monotonic()
            project.compose("up", "--detach", profile=TWO_GATEWAYS)
            row.note = wait_until_healthy(project, ["gateway-b"], started)
            wait_until_ready(project, "proxy")
        with report.check("replace both gateways under load: no stream cut, none refused, all in the ledger") as row:
            before = ledger_total(project)
            with crowd(address(project, "proxy"), project.keys["BIASGATE_APP_KEY"], clients=STREAMS) as streams:
                row.note = "; ".join(
                    replace(project, service, lambda: streams.open) for service in ("gateway", "gateway-b")
                )
            require(not streams.cut, f"{len(streams.cut)} cut or refused, the first: {streams.cut[:2]}")
            wait_for(
                lambda: ledger_total(project) - before == streams.whole,
                within_seconds=60,
                waiting_for=f"{streams.whole} more requests in the ledger than {before}",
            )
            row.note = f"{streams.whole} streams; {row.note}"
        with report.check("kill -9 gateway-b under load: its open streams are cut, no other and no new one") as row:
            with crowd(address(project, "proxy"), project.keys["BIASGATE_APP_KEY"], clients=STREAMS) as streams:
                open_there = wait_for_streams(project, "gateway-b")
                os.kill(podman.process_id(project.container("gateway-b")), signal.SIGKILL)
                time.sleep(8)
            cut = len(streams.cut)
            row.note = f"{open_there} were open there, {cut} cut, {streams.whole} whole"
            require(0 < cut <= open_there + 2, f"{row.note}; the first: {streams.cut[:1]}")  # 2 may have begun since


def replace(project: Project, service: str, count_open: Callable[[], int]) -> str:
    """Give a gateway another image as docs/install.md says, wait until it is healthy, and say how long each took."""
    podman = project.podman
    wait_for_streams(project, service)
    image = f"localhost/{PROJECT}_{service}:latest"
    podman.run(
        "build", "--isolation", "chroot", "--tag", image, "-", stdin=f"FROM {image}\nLABEL upgraded={uuid.uuid4()}\n"
    )
    expected = podman.inspect(image, kind="image")["Id"]
    open_streams, started = count_open(), time.monotonic()
    project.compose("up", "--detach", "--no-deps", "--force-recreate", service, profile=TWO_GATEWAYS)
    replaced = time.monotonic() - started
    wait_until_healthy(project, [service], started)
    require(podman.inspect(project.container(service))["Image"] == expected, f"{service} runs the old image")
    return f"{service} with {open_streams} open: replaced {replaced:.1f} s, healthy {time.monotonic() - started:.1f} s"


def wait_for_streams(project: Project, service: str) -> int:
    """Wait until a gateway serves a quarter of all streams, and return how many it serves."""

    def count() -> int:
        streams = in_flight(project, service)
        return streams if streams >= STREAMS // 4 else 0

    return wait_for(count, within_seconds=60, waiting_for=f"streams on {service}")


def in_flight(project: Project, service: str) -> int:
    """Return the requests that a gateway is serving."""
    header = f"authorization: Bearer {project.keys['BIASGATE_VIEWER_KEY']}"
    text = project.read_inside(f"http://{service}:8080/metrics", header=header)
    lines = [line for line in text.splitlines() if line.startswith("biasgate_inflight_requests")]
    return sum(int(float(line.split()[-1])) for line in lines)


def ledger_total(project: Project) -> int:
    """Return how many requests the ledger accounts for."""
    with project.client() as http:
        return sum(http.get("/live/ledger").json()["outcomes"].values())


def check_down(report: Report, project: Project) -> None:
    """Take everything down and start it again on the same volumes."""
    with report.check("down and up again: keys, exchanges and numbers are there") as row:
        before = ledger_total(project)
        with HealthTimer(project.podman):
            project.compose("down", "--timeout", "60", profile=TWO_GATEWAYS)
            left = project.podman.containers()
            require(not left, f"containers are left: {left}")
            started = time.monotonic()
            project.compose("up", "--detach", timeout=600)
            wait_until_healthy(project, long_running(project), started)
            row.note = f"healthy {time.monotonic() - started:.0f} s after up"
        wait_until_ready(project)
        require(ledger_total(project) >= before, f"the ledger had {before}, now {ledger_total(project)}")
        require(all_up_soon(project), "Prometheus cannot read its targets")
    with report.check("down with volumes leaves nothing"):
        project.compose("down", "--timeout", "60", "--volumes", profile=TWO_GATEWAYS)
        left = project.podman.containers() + project.podman.run("volume", "ls", "--quiet").split()
        require(not left, f"left: {left}")


def all_up_soon(project: Project) -> list[str]:
    return wait_for(lambda: all_up(project), within_seconds=60, waiting_for="targets that are up")
