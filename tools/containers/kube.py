"""The Helm chart's own resources, run by `podman kube play`, which knows no services, probes by HTTP, or jobs."""

import base64
import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from tools.containers.compose import ROOT, Project, write_simulator_profile
from tools.containers.compose_checks import AUDITOR_IMAGE, GATEWAY_IMAGE, require_audited
from tools.containers.podman import Podman
from tools.containers.report import Report, require, wait_for

NETWORK = "biasgate-kube"
PLAYED = ("ConfigMap", "Deployment")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
PORTS = {"gateway": 8080, "auditor": 9108}


def render(project: Project) -> list[dict[str, Any]]:
    """Return the chart's resources with its values for development, the images built here and the configuration."""
    helm = subprocess.run([ROOT / ".ci/helm"], capture_output=True, text=True, check=True).stdout.strip()
    images = (("gateway", GATEWAY_IMAGE), ("auditor", AUDITOR_IMAGE))
    chart = ROOT / "deploy/helm/biasgate"
    settings = [
        argument
        for role, image in images
        for argument in ("--set", f"image.{role}.repository={image.rsplit(':', 1)[0]},image.{role}.tag=latest")
    ]
    rendered = project.podman.execute(
        *(f"{helm}/helm", "template", "biasgate", str(chart), "--values", str(chart / "values-dev.yaml")),
        *("--set-file", f"config={project.directory / 'deploy/biasgate.toml'}", *settings),
    )
    return [resource for resource in yaml.safe_load_all(rendered) if resource]


def secret(project: Project, password: str) -> dict[str, Any]:
    """Return the secret that docs/install.md tells a user to make."""
    values = {name: key for name, key in project.keys.items() if name.startswith("BIASGATE_") and "_KEY" in name}
    values |= {
        "BIASGATE_SAMPLING_SECRET": project.keys["BIASGATE_SAMPLING_SECRET"],
        "BIASGATE_STORE__URL": f"postgresql://biasgate:{password}@postgres/biasgate",
    }
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "biasgate"}, "data": data}


def make_secret(podman: Podman, resource: dict[str, Any], path: Path) -> None:
    """Hand the secret to podman; versions before 4.5 cannot read what their own `kube play` makes of one."""
    version = tuple(map(int, podman.run("version", "--format", "{{.Client.Version}}").strip().split(".")[:2]))
    if version >= (4, 5):
        play(podman, [resource], path)
    else:
        podman.run("secret", "create", resource["metadata"]["name"], "-", stdin=json.dumps(resource["data"]))


def as_pod(job: dict[str, Any]) -> dict[str, Any]:
    """Return the pod that a job makes, which is what podman can run."""
    template = job["spec"]["template"]
    metadata = {"name": job["metadata"]["name"], "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def without_probes(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment whose probes this program reads itself: podman would run curl in the container for them."""
    if resource["kind"] == "Deployment":
        for container in resource["spec"]["template"]["spec"]["containers"]:
            for probe in PROBES:
                container.pop(probe, None)
    return resource


def play(podman: Podman, resources: list[dict[str, Any]], path: Path) -> None:
    """Hand resources to podman. Raises: ContainerError when podman refuses them."""
    path.write_text(yaml.safe_dump_all(resources), encoding="utf-8")
    path.chmod(0o600)
    podman.run("kube", "play", "--network", NETWORK, str(path), timeout=180)


def pod_address(podman: Podman, role: str) -> str:
    """Return the address in the containers' network of the pod that podman made for a role's Deployment."""
    pods = podman.run("pod", "ps", "--format", "{{.Name}}").split()
    (pod,) = [name for name in pods if name.startswith(f"biasgate-{role}-pod")]  # 4.3 adds a number
    infra = podman.run("pod", "inspect", "--format", "{{.InfraContainerID}}", pod).strip()
    return str(podman.inspect(infra)["NetworkSettings"]["Networks"][NETWORK]["IPAddress"])


def container_of(podman: Podman, role: str) -> str:
    """Return the name of a role's container in its pod."""
    (name,) = [name for name in podman.containers() if name.endswith(f"-{role}") and "infra" not in name]
    return name


def check_kube(report: Report, project: Project, postgres: str, scratch: Path) -> None:
    """Play what the chart renders beside a PostgreSQL and a simulated model, and check the pods."""
    podman, password = project.podman, secrets.token_urlsafe(24)
    resources = render(project)
    deployments = {
        r["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: r
        for r in resources
        if r["kind"] == "Deployment"
    }
    probes = {
        role: {probe: container[probe] for probe in PROBES}
        for role, deployment in deployments.items()
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    left_out = sorted({r["kind"] for r in resources} - {*PLAYED, "Job"})
    with report.check("PostgreSQL and the model run beside the pods", essential=True):
        podman.run("network", "create", NETWORK)
        start_neighbours(podman, postgres, password, scratch)
    with report.check("the migrations' job ends well", essential=True) as row:
        (job,) = [as_pod(r) for r in resources if r["kind"] == "Job"]
        started = time.monotonic()
        make_secret(podman, secret(project, password), scratch / "secret.yaml")
        play(podman, [job], scratch / "job.yaml")
        container = f"{job['metadata']['name']}-migrate"
        wait_for(lambda: not podman.is_running(container), within_seconds=90, waiting_for="the end of the job")
        state = podman.inspect(container)["State"]
        require(state["ExitCode"] == 0, f"exit code {state['ExitCode']}: {podman.run('logs', container)}")
        row.note = f"{time.monotonic() - started:.1f} s"
    with report.check("Deployments, ConfigMap and Secret are played", essential=True) as row:
        played = [without_probes(r) for r in resources if r["kind"] in PLAYED]
        play(podman, played, scratch / "kube.yaml")
        row.note = f"podman has no: {', '.join(left_out)}"
    started = time.monotonic()
    for role, port in PORTS.items():
        with report.check(f"{role}: the chart's probes succeed") as row:
            address = pod_address(podman, role)
            for name, probe in probes[role].items():
                require(probe["httpGet"]["port"] == "http", f"{name} asks port {probe['httpGet']['port']}")
                url = f"http://{address}:{port}{probe['httpGet']['path']}"
                read = lambda url=url, probe=probe: is_good(url, probe.get("timeoutSeconds", 1))  # noqa: E731
                wait_for(read, within_seconds=120, waiting_for=f"{name} {url}")
            row.note = f"{time.monotonic() - started:.1f} s after the start"
    check_pods(report, project)


def start_neighbours(podman: Podman, postgres: str, password: str, scratch: Path) -> None:
    """Start PostgreSQL and the simulated model under the names that the secret and the configuration have."""
    profile = scratch / "simulator.toml"
    write_simulator_profile(profile)
    variables = {"POSTGRES_USER": "biasgate", "POSTGRES_PASSWORD": password, "POSTGRES_DB": "biasgate"}
    settings = [argument for name, value in variables.items() for argument in ("--env", f"{name}={value}")]
    network = ("--detach", "--network", NETWORK)
    podman.run("run", *network, "--name", "postgres", *settings, postgres)
    model = ("simulate", "--host", "0.0.0.0", "--port", "8000", "--profile", "/profile.toml")
    podman.run("run", *network, "--name", "vllm", "--volume", f"{profile}:/profile.toml:ro,z", GATEWAY_IMAGE, *model)
    ready = ("exec", "postgres", "psql", "-h", "127.0.0.1", "-U", "biasgate", "-Atc", "select 1")
    environment = ("--env", f"PGPASSWORD={password}")
    wait_for(
        lambda: podman.run("exec", *environment, *ready[1:]).strip() == "1",
        within_seconds=90,
        waiting_for="PostgreSQL",
    )


def is_good(url: str, timeout: float) -> bool:
    """Ask as Kubernetes' HTTP probe does."""
    return 200 <= httpx.get(url, timeout=timeout, trust_env=False).status_code < 400


def check_pods(report: Report, project: Project) -> None:
    """Send requests to the pods, kill their containers, and stop the gateway."""
    podman = project.podman
    gateway = f"http://{pod_address(podman, 'gateway')}:8080"

    def client(key: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {project.keys[key]}"}
        return httpx.Client(base_url=gateway, headers=headers, trust_env=False, timeout=30)

    def request_is_audited() -> bool:
        require_audited(client("BIASGATE_APP_KEY"), client("BIASGATE_ADMIN_KEY"), within_seconds=100)
        return True

    for role in PORTS:
        with report.check(f"{role}: user 10001, no capability, read-only root, its own volumes writable"):
            container = container_of(podman, role)
            status = podman.run("exec", container, "cat", "/proc/1/status")
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            require(fields["Uid"].split()[0] == "10001", f"user {fields['Uid']}")
            require(int(fields["CapEff"], 16) == 0, f"effective capabilities {fields['CapEff']}")
            require(fields["NoNewPrivs"] == "1", "new privileges are possible")
            written = podman.run("exec", container, "sh", "-c", "touch /tmp/a /var/lib/biasgate/a && ! touch /a 2>&1")
            require("Read-only" in written, written)
    with report.check("a request is relayed, stored and audited by judge and embedder"):
        request_is_audited()
    for role in PORTS:
        with report.check(f"kill -9 {role}: restarted, the next request is audited") as row:
            container = container_of(podman, role)
            before, started = podman.process_id(container), time.monotonic()
            os.kill(before, signal.SIGKILL)
            wait_for(
                lambda c=container, b=before: podman.process_id(c) not in (0, b),  # type: ignore[misc]
                within_seconds=60,
                waiting_for="another process",
            )
            wait_for(request_is_audited, within_seconds=150, waiting_for="an audit")
            row.note = f"{time.monotonic() - started:.1f} s"
    with report.check("both pods stop within the chart's grace periods, exit code 0") as row:
        times = []
        for role, seconds in (("gateway", 120), ("auditor", 60)):
            container, started = container_of(podman, role), time.monotonic()
            podman.run("stop", "--time", str(seconds), container, timeout=seconds + 30)
            code = podman.inspect(container)["State"]["ExitCode"]
            require(code == 0, f"{role}: exit code {code}: {podman.run('logs', '--tail', '5', container, check=False)}")
            times.append(f"{role} {time.monotonic() - started:.1f} s")
        row.note = ", ".join(times)
