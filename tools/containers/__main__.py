"""Build both images, run the Compose file and the chart's pods: `python -m tools.containers`, `make test-containers`.

Needs podman with its helpers, and root or a rootless set-up of podman. Base images come from a registry; where none
answers, stand-ins are made of Debian's packages (needs root and debootstrap). podman-compose and helm come from the
package index. Ports are 127.0.0.1's alone. All containers, networks and volumes are removed at the end; images stay in
~/.cache/biasgate/containers for the next run. Ends with 1 when a check failed, with 2 when nothing could be run.

BIASGATE_CONTAINERS_BASE (auto, registry, debootstrap) is the source of base images, BIASGATE_CONTAINERS_MIRROR the
Debian mirror of stand-ins, BIASGATE_CONTAINERS_TORCH_INDEX the index that the auditor's torch is installed from.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from tools.containers.compose import ROOT, Project, read_services
from tools.containers.compose_checks import check_compose, check_down, check_images, check_upgrade
from tools.containers.images import build_arguments, make_base_images, torch_index
from tools.containers.kube import check_kube
from tools.containers.podman import ContainerError, Podman, prepared
from tools.containers.report import Report

MOST_MINUTES = 40
SECTIONS = ("compose", "upgrade", "kube")


class Stopped(BaseException):
    """The run must end; no check may take this for its own failure."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="parts to run after the images, default all")
    parser.add_argument("--source", choices=("auto", "registry", "debootstrap"), help="where base images come from")
    arguments = parser.parse_args()
    source = arguments.source or os.environ.get("BIASGATE_CONTAINERS_BASE", "auto")
    if source not in ("auto", "registry", "debootstrap"):
        parser.error(f"BIASGATE_CONTAINERS_BASE is {source!r}: must be auto, registry or debootstrap")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(MOST_MINUTES * 60)
    report, started = Report(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="biasgate-containers-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)  # containers read the deployment as users of their own
        try:
            with prepared(scratch) as podman:
                _run(report, podman, scratch, source, arguments.only or list(SECTIONS))
        except (ContainerError, Stopped) as exc:
            print(f"make test-containers: {exc}", file=sys.stderr)
            return 2
    print(f"\n{report.table()}\n")
    print(f"{len(report.rows)} checks, {len(report.failed)} failed, {time.monotonic() - started:.0f} s")
    return 1 if report.failed else 0


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(f"out of time after {MOST_MINUTES} minutes" if number == signal.SIGALRM else "stopped by SIGTERM")


def _run(report: Report, podman: Podman, scratch: Path, source: str, sections: list[str]) -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    base = next(line.split()[1] for line in dockerfile.splitlines() if " AS package" in line)
    wanted = {base} | {service["image"] for service in read_services().values() if "image" in service}
    wanted = {image for image in wanted if "/vllm/" not in image}
    with report.in_section("images"):
        with report.check("base images", essential=True) as row:
            origins = make_base_images(podman, wanted, source)  # type: ignore[arg-type]
            row.note = ", ".join(f"{image} ({origin})" for image, origin in origins.items())
        project = Project(
            podman,
            scratch / "deployment",
            build_arguments(scratch),
            torch_index(_default_torch_index()),
            scratch / "compose.log",
        )
        changes = project.prepare(set(origins))
        print(
            f"  changed for this machine: {', '.join(changes)}; torch from {project.torch_index or 'the default index'}"
        )
        check_images(report, project, base)
    if report.failed:
        return
    if {"compose", "upgrade"} & set(sections):
        with report.in_section("compose"):
            if "compose" in sections:
                check_compose(report, project)
            if "upgrade" in sections:
                check_upgrade(report, project)
            check_down(report, project)
        podman.remove_everything()
    if "kube" in sections:
        with report.in_section("kube play"):
            (postgres,) = [image for image in origins if "/postgres:" in image]
            check_kube(report, project, postgres, scratch)


def _default_torch_index() -> str:
    """Return the index that the Compose file names for the auditor's torch."""
    whole = yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text(encoding="utf-8"))
    argument: str = whole["services"]["auditor"]["build"]["args"]["TORCH_INDEX_URL"]
    return argument.removeprefix("${TORCH_INDEX_URL-").removesuffix("}")


if __name__ == "__main__":
    sys.exit(main())
