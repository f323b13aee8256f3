"""Collect the wheels that the GPU machine lacks and cut them into parts that fit one transfer each.

    python -m tools.gpu.wheels

It writes .gpu/part-00, .gpu/part-01 and so on, which takes some minutes: run it before the machine is at hand.
Requirements are followed breadth first for the machine's Python and platform. A distribution that the machine has is
neither carried nor followed.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import deque
from collections.abc import Iterator
from email.parser import HeaderParser
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.gpu.machine import Machine, read_machine

FOLDER = Path(".gpu")
PROJECT_EXTRAS = ("embedder", "otel", "postgres")
MORE_REQUIREMENTS = ("openai>=2", "pytest-asyncio>=1")
"""Imports of the tests that run against the machine's vLLM."""
OLDEST_GLIBC = 17


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="(default %(default)s)")
    options = parser.parse_args()
    machine = read_machine()
    wheels = options.folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for wheel in collect_wheels(machine, wheels):
        sys.stderr.write(f"{wheel.stat().st_size / 2**20:8.1f} MiB  {wheel.name}\n")
    carried = [shrink_wheel(wheel, machine.unused_files) for wheel in sorted(wheels.glob("*.whl"))]
    parts = write_parts(carried, options.folder, machine.transfer_mebibytes * 2**20)
    print(f"{len(parts)} parts in {options.folder}: carry each, then run `python3 -m tools.gpu.receive {parts[0]}`")
    return 0


def collect_wheels(machine: Machine, folder: Path) -> Iterator[Path]:
    """Download the wheels of vLLM and of biasgate that the machine lacks, one by one, into `folder`.

    Raises SystemExit with pip's last line when a distribution has no wheel for the machine.
    """
    environment = target_environment(machine)
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = [line for extra in PROJECT_EXTRAS for line in project["optional-dependencies"][extra]]
    first = [*machine.overrides, machine.vllm, *project["dependencies"], *extras, *MORE_REQUIREMENTS]
    waiting = deque(map(Requirement, first))
    skipped = {*machine.installed, *machine.left_out}
    wheels: dict[str, Path] = {}
    extras_of: dict[str, set[str]] = {}
    while waiting:
        requirement = waiting.popleft()
        name = canonicalize_name(requirement.name)
        if name in skipped or (name in wheels and requirement.extras <= extras_of[name]):
            continue
        if name not in wheels:
            wheels[name] = download_wheel(requirement, machine, folder)
            yield wheels[name]
        extras_of.setdefault(name, set()).update(requirement.extras)
        waiting += requirements_of(wheels[name], environment, requirement.extras)


def target_environment(machine: Machine) -> dict[str, str]:
    """Return the values of environment markers (PEP 508) on the machine."""
    return {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{machine.python}.0",
        "python_version": machine.python,
        "sys_platform": "linux",
    }


def download_wheel(requirement: Requirement, machine: Machine, folder: Path) -> Path:
    """Return the wheel of a requirement, from the folder when an earlier call left it there."""
    minor = int(machine.glibc.partition(".")[2])
    platforms = [f"manylinux_2_{number}_x86_64" for number in range(minor, OLDEST_GLIBC - 1, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    wanted = f"{requirement.name}{requirement.specifier}"
    target = folder / hashlib.sha256(wanted.encode()).hexdigest()[:12]
    if not list(target.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--python-version", machine.python, "--implementation", "cp", "--dest", str(target)]
        command += [argument for platform in platforms for argument in ("--platform", platform)]
        result = subprocess.run([*command, wanted], check=False, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"{wanted}: {result.stderr.strip().splitlines()[-1]}")
    [wheel] = target.glob("*.whl")
    link = folder / wheel.name
    if not link.exists():
        link.hardlink_to(wheel)
    return link


def requirements_of(wheel: Path, environment: dict[str, str], extras: set[str]) -> list[Requirement]:
    """Return what the wheel requires on the machine with these extras."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    requirements = map(Requirement, headers.get_all("Requires-Dist") or [])
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None
        or any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in (*extras, ""))
    ]


def shrink_wheel(wheel: Path, unused_files: list[str]) -> Path:
    """Return the wheel, or a copy without the unused files when it holds any."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        kept = [entry for entry in entries if not any(fnmatch(entry.filename, pattern) for pattern in unused_files)]
        if len(kept) == len(entries):
            return wheel
        smaller = wheel.parent / "smaller" / wheel.name
        smaller.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in kept:
                target.writestr(entry, archive.read(entry))
    return smaller


def write_parts(wheels: list[Path], folder: Path, part_bytes: int) -> list[Path]:
    """Write the wheels as one archive, cut into folders `part-NN` of at most `part_bytes` each, with its SHA-256."""
    archive = folder / "wheels.tar"
    with tarfile.open(archive, "w") as tar:
        for wheel in wheels:
            tar.add(wheel, arcname=wheel.name)
    for stale in folder.glob("part-*/*"):
        stale.unlink()
    count = -(-archive.stat().st_size // part_bytes)
    parts = []
    digest = hashlib.sha256()
    with archive.open("rb") as source:
        for number in range(count):
            part = folder / f"part-{number:02}"
            part.mkdir(exist_ok=True)
            content = source.read(part_bytes)
            digest.update(content)
            (part / "content").write_bytes(content)
            (part / "sha256").write_text(hashlib.sha256(content).hexdigest())
            (part / "count").write_text(str(count))
            parts.append(part)
    archive.unlink()
    for part in folder.glob("part-*"):
        if part not in parts:
            part.rmdir()
    return parts


if __name__ == "__main__":
    sys.exit(main())
