"""The compose file, its Dockerfile and the systemd units: valid, confined, with keys, at one with what they name."""

import json
import re
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from gateway.config.loading import load
from gateway.config.variables import variables_of
from gateway.features.deploy import writing
from gateway.processes.usable import require_keys_off_loopback
from tests.support import required

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
COMPOSE = ROOT / "deploy" / "docker-compose.yml"


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_compose_file_is_valid() -> None:
    """It holds to the Compose Specification's own schema, merges resolved."""
    import jsonschema

    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    whole = yaml.safe_load(COMPOSE.read_text())
    validator = jsonschema.Draft202012Validator(json.loads(vendored.read_text(encoding="utf-8")))
    assert [error.message for error in validator.iter_errors(whole)] == []
    broken = whole | {"services": {"gateway": {"imagee": "x"}}}
    assert [error.message for error in validator.iter_errors(broken)] != []


def test_the_generated_env_has_every_variable() -> None:
    """`biasgate deploy write` makes all that the compose file asks for; what it leaves out has a default there."""
    text = COMPOSE.read_text()
    required_there = set(re.findall(r"\$\{(\w+):\?\}", text))
    made = {line.split("=")[0] for line in writing.drawn().splitlines() if re.match(r"\w+=", line)}
    asked = required_there | set(re.findall(r"\$\{(\w+):?-", text))
    assert required_there == {"MODEL", *writing.SECRETS}
    assert required_there <= made <= asked
    assert asked - made == {"TORCH_INDEX_URL"}


def stages() -> dict[str, tuple[str, str]]:
    """Base and text of each stage of the Dockerfile by its name, in the file's order."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", (ROOT / "deploy" / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    return {name: (base, text) for base, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def test_env_names_an_image_source_that_the_dockerfile_has() -> None:
    """The package stage has a branch for each generated or default BIASGATE_SOURCE only; the index needs a version."""
    _, package = stages()["package"]
    values = dict(line.split("=", 1) for line in writing.drawn().splitlines() if re.match(r"\w+=", line))
    default = re.search(r"^ARG BIASGATE_SOURCE=(\w+)$", package, re.MULTILINE)
    assert default is not None
    assert {values["BIASGATE_SOURCE"], default[1]} == set(re.findall(r"^ +(\w+)\) pip", package, re.MULTILINE))
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", values["BIASGATE_VERSION"])


def test_docker_and_podman_build_the_same_stages() -> None:
    """The Dockerfile has fixed bases with full image names and no health check, as podman's builder needs."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    names = list(stages())
    bases = {base for base, _ in stages().values()} - set(names)
    images = [service["image"] for service in services().values() if "image" in service]
    assert "FROM from-" not in dockerfile
    before_the_gateway = names[: names.index("gateway")]
    assert set(before_the_gateway) == {"package", "dependencies", "runtime"}
    assert "HEALTHCHECK" not in dockerfile
    assert all("healthcheck" in services()[name] for name in ("gateway", "gateway-b", "auditor"))
    assert [image for image in [*bases, *images] if not image.startswith("docker.io/")] == []


def test_files_of_the_host_are_readable_under_selinux() -> None:
    """Each file or folder of the host is mounted with the label that a container may read."""
    mounts = [mount.split(":") for service in services().values() for mount in service.get("volumes", [])]
    assert {mount[2] for mount in mounts if mount[0].startswith(".")} == {"ro,z"}


def test_torch_is_a_cpu_build_unless_asked_for() -> None:
    """The Dockerfile and the Compose file name the same index by default; an empty value in .env leaves it to pip."""
    (default,) = re.findall(r"^ARG TORCH_INDEX_URL=(\S+)$", stages()["auditor-dependencies"][1], re.MULTILINE)
    assert services()["auditor"]["build"]["args"]["TORCH_INDEX_URL"] == f"${{TORCH_INDEX_URL-{default}}}"
    assert default.endswith("/cpu")


def test_two_gateways_stand_behind_one_proxy() -> None:
    """The proxy serves both gateways, which differ only in the published port and stop being ready early enough."""
    proxy = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text()
    first, second = services()["gateway"], services()["gateway-b"]
    servers = re.findall(r"^ +server (\S+) (\S+):(\d+)$", proxy, re.MULTILINE)
    config = load(ROOT / "deploy" / "biasgate.toml", environ=first["environment"])
    (interval,) = re.findall(r"inter (\d+)ms", proxy)
    assert {(name, host, int(port)) for name, host, port in servers} == {
        (name, name, config.server.port) for name in ("gateway", "gateway-b")
    }
    assert second == first | {"profiles": ["two-gateways"], "ports": []}
    assert services()["proxy"]["profiles"] == ["two-gateways"]
    assert config.server.drain_notice_seconds >= 4 * int(interval) / 1000
    assert "depends_on" not in services()["proxy"]  # podman-compose replaces a service's dependents with it


def test_prometheus_gets_its_key_from_a_file(tmp_path: Path) -> None:
    """The service writes its key for its own user at each start, drops it from its environment, and needs no other."""
    prometheus = services()["prometheus"]
    (command,) = prometheus["command"]
    here = command.replace("/run/keys", str(tmp_path)).replace("$$", "$").replace("exec /bin/prometheus", "exec env; :")
    for key in ("first", "second"):
        environ = {"BIASGATE_VIEWER_KEY": key, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["/bin/sh", "-euc", here], env=environ, check=True, capture_output=True, text=True)
        assert (tmp_path / "viewer_key").read_text() == key
        assert "BIASGATE" not in done.stdout
    assert (tmp_path / "viewer_key").stat().st_mode & 0o777 == 0o600
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    files = {job["authorization"]["credentials_file"] for job in jobs if "authorization" in job}
    assert files == {f"{folder}/viewer_key" for folder in prometheus["tmpfs"]}
    assert "depends_on" not in prometheus


def test_compose_names_files_that_exist() -> None:
    """Every bind mount, build context and build target of the compose file exists."""
    mounts = [volume.split(":")[0] for service in services().values() for volume in service.get("volumes", [])]
    assert [path for path in mounts if path.startswith(".") and not (COMPOSE.parent / path).exists()] == []
    targets = {service["build"]["target"] for service in services().values() if "build" in service}
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert targets <= set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE))


def test_compose_and_prometheus_agree_on_names() -> None:
    """Prometheus scrapes services of the compose file, at the ports that biasgate.toml gives them."""
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in jobs for config in job["static_configs"] for target in config["targets"]}
    config = load(ROOT / "deploy" / "biasgate.toml", environ={})
    names = {name for job in jobs for config in job.get("dns_sd_configs", ()) for name in config["names"]}
    assert {target.split(":")[0] for target in targets} | names <= set(services())
    assert names == {name for name, service in services().items() if "profiles" in service and "build" in service}
    assert {f"gateway:{config.server.port}", f"auditor:{config.server.auditor_metrics_port}"} <= targets


def test_deployed_configuration_is_valid() -> None:
    """The compose file and biasgate.toml make a valid configuration that gets all secrets and asks for keys."""
    for role in ("gateway", "auditor"):
        environment = services()[role]["environment"]
        config = load(ROOT / "deploy" / "biasgate.toml", environ=environment)
        assert config.store.url.startswith("postgresql://")
        assert variables_of(config) <= set(environment)
    require_keys_off_loopback(config)
    assert not config.server.allow_open


def test_services_are_confined() -> None:
    """No service gains a capability, writes outside its volumes, drops seccomp or shares a host namespace."""
    for name, service in services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "ipc", "pid", "network_mode", "userns_mode"} & service.keys(), name
        assert "cap_add" not in service or name == "postgres"
        mounts = [volume.split(":") for volume in service.get("volumes", [])]
        assert [mount for mount in mounts if mount[0].startswith((".", "/")) and mount[2:] != ["ro,z"]] == [], name


def test_published_ports_are_this_hosts_alone() -> None:
    """Whoever is to reach them comes through a proxy with TLS."""
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_images_have_an_exact_version() -> None:
    """A release or a digest, never a name that means something else tomorrow."""
    bases = {base for base, _ in stages().values()} - set(stages())
    images = bases | {service["image"] for service in services().values() if "image" in service}
    exact = r"[\w./-]+:v?\d+\.\d+(\.\d+)?(-\w+)*(@sha256:[0-9a-f]{64})?"
    assert images
    assert [image for image in images if not re.fullmatch(exact, image)] == []
    assert [base for base in bases if not re.match(r"docker.io/library/python:\d+\.\d+\.\d+", base)] == []


def test_gateway_image_has_no_torch() -> None:
    """The gateway's stage copies an environment in which torch was never installed."""
    texts = {name: text for name, (_, text) in stages().items()}
    assert "--from=dependencies " in texts["gateway"]
    assert "torch" not in texts["dependencies"]
    assert "torch" in texts["auditor-dependencies"]


UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
MOST_EXPOSED = 2.0
"""Of ten, as `systemd-analyze security` counts; without any confinement a unit has 9.6."""


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = required.program("systemd-analyze", package="systemd", kind="SYSTEMD")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_valid_and_confined(unit: Path, tmp_path: Path) -> None:
    """systemd knows every directive, finds the program, and counts little that the service could do to its machine."""
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace("/usr/local/bin/biasgate", "/bin/true"))
    verified = systemd_analyze("verify", "--man=no", str(here))
    judged = systemd_analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", str(here))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]
    here.write_text(here.read_text() + "[Service]\nRestrat=no\n")
    assert "Restrat" in systemd_analyze("verify", "--man=no", str(here)).stderr


def test_units_share_a_user_and_a_directory() -> None:
    """What one role leaves for the other, and an SQLite store, are reached by both; each runs its own role."""
    settings = [re.findall(r"^([A-Z]\w+)=(.*)$", unit.read_text(), re.MULTILINE) for unit in UNITS]
    shared = [
        {f"{name}={value}" for name, value in one if name in ("User", "DynamicUser", "StateDirectory", "Environment")}
        for one in settings
    ]
    assert len(UNITS) == 2
    assert shared[0] == shared[1]
    starts = [dict(one)["ExecStart"].split()[1] for one in settings]
    assert starts == ["auditor", "gateway"]
    assert load(ROOT / "deploy" / "biasgate.toml", environ={}).store.url.startswith("sqlite:////var/lib/biasgate/")


def test_there_is_time_to_drain() -> None:
    """Compose and systemd wait longer than draining takes before they kill."""
    drain = load(ROOT / "deploy" / "biasgate.toml", environ=services()["gateway"]["environment"]).server
    least = drain.drain_notice_seconds + drain.drain_seconds
    for unit in UNITS:
        assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)[0]) > least
    for name in ("gateway", "gateway-b", "auditor", "proxy"):
        assert int(services()[name]["stop_grace_period"].removesuffix("s")) > least
