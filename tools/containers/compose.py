"""The Compose file as a user starts it, with the few changes that a machine without a GPU needs."""

import os
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from gateway.features.deploy.writing import write
from tools.containers.podman import CACHE, ContainerError, Podman, process_limits

ROOT = Path(__file__).parents[2]
PODMAN_COMPOSE = "podman-compose==1.6.0"
PROJECT = "biasgate"
PROFILE = Path("benchmarks/simulator/profiles/default.toml")
SLOW = "\n[latency]\nfirst_token_seconds = 0.05\ntokens_per_second = 12\n"
"""Streams last some ten seconds, so that many are open whenever a container is stopped."""
EVERYTHING_IS_AUDITED = (
    (r"^rate = .*$", "rate = 1.0"),
    (r"^strata = .*$", "strata = { identity_mention = 1.0, other = 1.0 }"),
)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def read_services() -> dict[str, Any]:
    """Return the services of the repository's Compose file."""
    return dict(yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text(encoding="utf-8"))["services"])


def install_podman_compose() -> Path:
    """Return the program, installed from the package index into the cache by the first run."""
    folder = CACHE / PODMAN_COMPOSE
    program = folder / "bin/podman-compose"
    if not program.exists():
        local = Podman(dict(os.environ))
        local.execute(sys.executable, "-m", "venv", "--clear", str(folder), timeout=120)
        local.execute(str(folder / "bin/pip"), "install", "--quiet", PODMAN_COMPOSE, timeout=300)
    return program


def write_simulator_profile(path: Path) -> None:
    """Write the profile of the simulated model that takes vLLM's place."""
    path.write_text((ROOT / PROFILE).read_text(encoding="utf-8") + SLOW, encoding="utf-8")
    path.chmod(0o644)


@dataclass
class Project:
    """A deployment written by `biasgate deploy write`, and how to reach what runs in it."""

    podman: Podman
    directory: Path
    build: list[str]
    torch_index: str
    log: Path
    ports: dict[str, int] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    services: list[str] = field(default_factory=list)

    def prepare(self, available: set[str]) -> list[str]:
        """Write the files and change them for this machine; return the changes in words.

        Args:
            available: images that could be pulled or have a stand-in. A service with another image is left out.
        """
        write(self.directory)
        self.directory.chmod(0o755)
        lines = (self.directory / "deploy/.env").read_text(encoding="utf-8").splitlines()
        self.keys = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
        configuration = self.directory / "deploy/biasgate.toml"
        text = configuration.read_text(encoding="utf-8")
        for pattern, replacement in EVERYTHING_IS_AUDITED:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        configuration.write_text(text, encoding="utf-8")
        path = self.directory / "deploy/docker-compose.yml"
        project = yaml.safe_load(path.read_text(encoding="utf-8"))
        changes = [*self._adapt(project["services"], available)]
        path.write_text(yaml.safe_dump(project), encoding="utf-8")
        self.services = list(project["services"])
        return changes

    def _adapt(self, services: dict[str, Any], available: set[str]) -> list[str]:
        write_simulator_profile(self.directory / "deploy/simulator.toml")
        model = services["vllm"]
        model |= {
            "image": f"localhost/{PROJECT}_gateway",
            "entrypoint": ["biasgate", "simulate", "--host", "0.0.0.0", "--port", "8000"],
            "command": ["--profile", "/profile.toml"],
            "volumes": ["./simulator.toml:/profile.toml:ro"],
            "healthcheck": services["gateway"]["healthcheck"] | {"test": ["CMD", "python", "-V"]},
        }
        for name in ("deploy", "shm_size"):
            del model[name]
        for service in services.values():
            service["ulimits"] |= process_limits()
            if "build" in service:
                service["build"]["context"] = str(ROOT)
        changes = ["vLLM is the simulator", "every exchange is audited"]
        for name, service in list(services.items()):
            if "image" in service and name != "vllm" and service["image"] not in available:
                del services[name]
                changes.append(f"no {name}")
            for number, port in enumerate(service.get("ports", ())):
                host, _, inside = port.rsplit(":", 2)
                self.ports[name] = free_port()
                service["ports"][number] = f"{host}:{self.ports[name]}:{inside}"
        return changes

    def compose(self, *arguments: str, profile: str = "", timeout: float = 300.0) -> str:
        """Run podman-compose on the project. Raises: ContainerError when it fails or takes longer than `timeout`."""
        program = str(install_podman_compose())
        build = " ".join(self.build)
        return self.podman.execute(
            *("nice", "-n", "10", program, "--file", "docker-compose.yml", f"--podman-build-args={build}"),
            *(("--profile", profile) if profile else ()),
            *arguments,
            timeout=timeout,
            directory=self.directory / "deploy",
            variables={"BIASGATE_SOURCE": "checkout", "TORCH_INDEX_URL": self.torch_index},
            log=self.log,
        )

    def container(self, service: str) -> str:
        """Return the name that podman-compose gives a service's container."""
        return f"{PROJECT}_{service}_1"

    def client(self, service: str = "gateway", key: str = "BIASGATE_ADMIN_KEY") -> httpx.Client:
        """Return an HTTP client of a published port, with one of the deployment's keys or with none."""
        headers = {"authorization": f"Bearer {self.keys[key]}"} if key else {}
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.ports[service]}", headers=headers, trust_env=False, timeout=30
        )

    def read_inside(self, url: str, *, header: str = "") -> str:
        """Return the body that a URL of the containers' network answers with. Raises: ContainerError for an error."""
        program = (
            "import sys, urllib.request as u\n"
            "r = u.Request(sys.argv[1], headers=dict([sys.argv[2].split(': ')]) if sys.argv[2] else {})\n"
            "print(u.urlopen(r, timeout=10).read().decode())"
        )
        return self.podman.run("exec", self.container("vllm"), "python", "-c", program, url, header)


@dataclass
class HealthTimer:
    """Runs the health checks of all containers every two seconds where no systemd does it for podman."""

    podman: Podman
    stopping: Event = field(default_factory=Event)
    thread: Thread | None = None

    def __enter__(self) -> "HealthTimer":
        if not Path("/run/systemd/system").is_dir():
            self.thread = Thread(target=self._run, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self.thread is not None:
            self.thread.join(60)

    def _run(self) -> None:
        while not self.stopping.wait(2.0):
            try:
                for name in self.podman.containers():
                    self.podman.health(name)
            except ContainerError:
                time.sleep(1.0)  # a container went away meanwhile
