"""Podman with its own storage and configuration, so that a run does not touch the user's containers and images."""

import fcntl
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "biasgate" / "containers"
"""Images of earlier runs and pip's podman-compose. Nothing else needs the folder: delete it to start from nothing."""
RUNTIME = Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / "biasgate-containers"
"""State of running containers. Podman's database keeps the path, so it is the same in every run."""
PROGRAMS = ("podman", "conmon", "netavark", "aardvark-dns", "iptables", "catatonit")
"""Programs that a run needs; Debian's and Fedora's packages have the same names."""
HELPER_FOLDERS = "/usr/lib/podman:/usr/libexec/podman:/usr/local/libexec/podman"
PODMAN_OPEN_FILES = 1_048_576
"""The limit that podman asks for in each container; a lower hard limit of this process makes it fail."""


class ContainerError(Exception):
    """Podman could not do what a check needs; the message is podman's own last lines."""


@dataclass(frozen=True)
class Podman:
    """Runs podman with the environment that names this run's storage and configuration."""

    environment: dict[str, str]

    def run(self, *arguments: str, check: bool = True, timeout: float = 120.0, stdin: str | None = None) -> str:
        """Return podman's standard output. Raises: ContainerError on a failure or after `timeout` seconds."""
        return self.execute("podman", *arguments, check=check, timeout=timeout, stdin=stdin)

    def execute(
        self,
        *command: str,
        check: bool = True,
        timeout: float = 120.0,
        stdin: str | None = None,
        directory: Path | None = None,
        variables: dict[str, str] | None = None,
        log: Path | None = None,
    ) -> str:
        """Run any program with this run's environment and return its standard output; `log` gets all that it prints."""
        try:
            done = subprocess.run(
                command,
                env=self.environment | (variables or {}),
                cwd=directory,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise ContainerError(f"{' '.join(command[:6])} ... took longer than {timeout:g} s") from exc
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
        if check and done.returncode:
            lines = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise ContainerError(f"{' '.join(command[:6])} ... ended with {done.returncode}:\n{lines}")
        return done.stdout

    def inspect(self, name: str, *, kind: str = "container") -> dict[str, Any]:
        """Return what podman knows of a container or an image."""
        (inspected,) = json.loads(self.run("inspect", "--type", kind, name))
        return dict(inspected)

    def has_image(self, name: str) -> bool:
        return self.run("image", "exists", name, check=False) == "" and name in self.images()

    def images(self) -> dict[str, int]:
        """Return the size in bytes of each tagged image."""
        listed = json.loads(self.run("images", "--format", "json"))
        return {name: int(image["Size"]) for image in listed for name in image.get("Names") or ()}

    def containers(self) -> list[str]:
        """Return the names of all containers of this run's storage, running or not."""
        return self.run("ps", "--all", "--format", "{{.Names}}").split()

    def is_running(self, name: str) -> bool:
        return self.run("inspect", "--format", "{{.State.Running}}", name, check=False).strip() == "true"

    def process_id(self, name: str) -> int:
        """Return the id on this machine of a container's first process."""
        return int(self.run("inspect", "--format", "{{.State.Pid}}", name))

    def health(self, name: str) -> str:
        """Run a container's health check once and return the state that follows from it.

        Podman leaves the timing of health checks to systemd; a machine without systemd never runs one by itself.
        """
        self.run("healthcheck", "run", name, check=False, timeout=60)
        return self.run("inspect", "--format", "{{.State.Health.Status}}", name, check=False).strip()

    def remove_everything(self) -> None:
        """Remove every container, pod, volume, secret and network of this run; images stay."""
        self.run("pod", "rm", "--all", "--force", "--time", "1", check=False)
        self.run("rm", "--all", "--force", "--time", "1", "--volumes", check=False)
        self.run("volume", "prune", "--force", check=False)
        for secret in self.run("secret", "ls", "--format", "{{.Name}}", check=False).split():
            self.run("secret", "rm", secret, check=False)
        self.run("network", "prune", "--force", check=False)


@contextmanager
def prepared(scratch: Path) -> Iterator[Podman]:
    """Yield podman with its own configuration under `scratch` and images in the cache; remove containers at the end.

    Raises: ContainerError when podman or a helper is not installed, or another run is under way.
    """
    lacking = [program for program in PROGRAMS if _find(program) is None]
    if lacking:
        raise ContainerError(f"not installed: {', '.join(lacking)} (Debian and Fedora packages of these names)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise ContainerError(f"another run of make test-containers holds {CACHE / 'lock'}") from exc
        podman = Podman(_environment(scratch))
        podman.remove_everything()  # what a killed run has left
        try:
            yield podman
        finally:
            podman.remove_everything()
            podman.run("image", "prune", "--force", "--filter", "until=168h", check=False)  # layers of earlier versions


def process_limits() -> dict[str, int]:
    """Return limits to set in containers where this process may not have those that podman asks for by itself."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {} if most_files >= PODMAN_OPEN_FILES else {"nofile": 8192, "nproc": 4096}


def _find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=HELPER_FOLDERS)


def _environment(scratch: Path) -> dict[str, str]:
    storage, containers = scratch / "storage.conf", scratch / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{CACHE / "storage"}"\nrunroot = "{RUNTIME / "storage"}"\n'
    )
    containers.write_text("\n".join(_settings(scratch)) + "\n")
    return dict(os.environ) | {
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_CONF": str(containers),
        "BUILDAH_ISOLATION": "chroot",
    }


def _settings(scratch: Path) -> Iterator[str]:
    yield "[network]"
    yield 'network_backend = "netavark"'
    yield f'network_config_dir = "{scratch / "networks"}"'
    yield "[engine]"
    yield f'tmp_dir = "{RUNTIME / "libpod"}"'
    yield 'events_logger = "file"'
    if not Path("/run/systemd/system").is_dir():
        yield 'cgroup_manager = "cgroupfs"'
    if shutil.which("runc"):
        yield 'runtime = "runc"'  # crun does not start where cgroups are of version 1
    yield "[containers]"
    yield f"default_ulimits = {[f'{name}={limit}:{limit}' for name, limit in process_limits().items()]}"
    yield 'log_driver = "k8s-file"'
