"""The images of a run: base images from a registry or as stand-ins made of Debian packages, and biasgate's own."""

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from tools.containers.podman import CACHE, ContainerError, Podman

STAND_INS = Path(__file__).parent / "stand_ins"
STAND_IN_LABEL = "biasgate.stand-in"
DEBIAN = "localhost/biasgate-debian"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
TARGETS = ("postgres", "prometheus", "alertmanager", "haproxy")
"""Targets of stand_ins/Containerfile, each named like the image whose place it takes."""
REGISTRY = "https://registry-1.docker.io/v2/"
CERTIFICATES = Path("/etc/ssl/certs")

Source = Literal["auto", "registry", "debootstrap"]


def answers(url: str) -> bool:
    """Return whether a server answers there within 10 seconds, with whatever status."""
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def make_base_images(podman: Podman, images: Iterable[str], source: Source) -> dict[str, str]:
    """Make every image available under its own name, and return the origin of each in words.

    An image without a stand-in (Grafana's) is left out where no registry can be reached.
    Raises: ContainerError when an image cannot be pulled or made.
    """
    use_registry = source == "registry" or (source == "auto" and answers(REGISTRY))
    origins = {}
    for image in sorted(set(images)):
        repository = re.split("[:@]", image)[0].split("/")[-1]
        label = _stand_in_label(podman, image) if podman.has_image(image) else None
        if label == ("" if use_registry else _stand_ins_digest()):
            origins[image] = "registry, cached" if use_registry else "stand-in, cached"
        elif use_registry:
            podman.run("pull", "--quiet", image, timeout=900)
            origins[image] = "registry"
        elif repository == "python":
            _make_debian(podman)
            podman.run("tag", DEBIAN, image)
            origins[image] = "stand-in"
        elif repository in TARGETS:
            _make_debian(podman)
            _build_stand_in(podman, repository, image)
            origins[image] = "stand-in"
    return origins


def _stand_ins_digest() -> str:
    """Return a digest of the files that stand-ins are made from."""
    files = sorted(path for path in STAND_INS.iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _stand_in_label(podman: Podman, image: str) -> str:
    """Return the digest that a stand-in carries; nothing for an image from a registry."""
    labels = podman.inspect(image, kind="image").get("Labels") or {}
    return str(labels.get(STAND_IN_LABEL, ""))


def _make_debian(podman: Podman) -> None:
    """Import a minimal Debian of this machine's release, with `python` and `pip` as the python image has them."""
    if podman.has_image(f"{DEBIAN}:latest"):
        return
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise ContainerError(
            "no registry answers, and stand-ins need root and debootstrap (Debian package debootstrap)"
        )
    root = CACHE / "debian"
    shutil.rmtree(root, ignore_errors=True)
    mirror, release = _debian_mirror()
    command = (
        "nice",
        "-n",
        "15",
        "debootstrap",
        "--variant=minbase",
        f"--include={PACKAGES}",
        release,
        str(root),
        mirror,
    )
    podman.execute(*command, timeout=900)
    for name, target in (("python", "python3"), ("pip", "pip3")):
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/bin" / name).symlink_to(target)
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    tar = root.with_suffix(".tar")
    podman.execute("tar", "-C", str(root), "-cf", str(tar), ".", timeout=300)
    podman.run(
        "import", "--quiet", "--change", f"LABEL {STAND_IN_LABEL}={_stand_ins_digest()}", str(tar), DEBIAN, timeout=300
    )
    shutil.rmtree(root)
    tar.unlink()


def _debian_mirror() -> tuple[str, str]:
    """Return the address that apt has packages of this machine's Debian release from, and the release's code name."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if "=" in line
    )
    code_name = release.get("VERSION_CODENAME", "").strip('"')
    if mirror := os.environ.get("BIASGATE_CONTAINERS_MIRROR"):
        return mirror, code_name
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(CREATED_BY)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in listed.stdout.splitlines():
        address, codename, component, kind = line.split()
        if (codename, component, kind) == (code_name, "main", "Packages"):
            return address, code_name
    raise ContainerError("apt names no mirror of this machine's Debian release: set BIASGATE_CONTAINERS_MIRROR to one")


def _build_stand_in(podman: Podman, target: str, name: str) -> None:
    dumped = subprocess.run(["apt-config", "dump", "--no-empty"], capture_output=True, text=True, check=False).stdout
    settings = CACHE / "apt.conf"  # this machine's proxies
    settings.write_text("".join(re.findall(r"^Acquire::https?::.*\n", dumped, re.MULTILINE)), encoding="utf-8")
    podman.run(
        *("build", "--quiet", "--layers", "--network", "host", "--isolation", "chroot"),
        *("--volume", f"{settings}:/etc/apt/apt.conf:ro"),
        *("--label", f"{STAND_IN_LABEL}={_stand_ins_digest()}", "--target", target, "--tag", name, str(STAND_INS)),
        timeout=900,
    )


def build_arguments(scratch: Path) -> list[str]:
    """Return what `podman build` needs to install packages as this machine does: pip's settings and certificates."""
    listed = subprocess.run(
        ["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    settings.pop("constraint", None)  # the locks of the images hold every version
    parser = configparser.RawConfigParser()
    parser["global"] = settings
    configuration = scratch / "pip.conf"
    with configuration.open("w", encoding="utf-8") as file:
        parser.write(file)
    folders = {_top(Path(path)) for path in re.findall(r"(?:file://)?(/[\w./-]+)", " ".join(settings.values()))}
    mounts = [argument for folder in sorted(folders) if folder.is_dir() for argument in _mount(folder)]
    return [
        *("--isolation", "chroot", "--network", "host", "--layers"),
        *("--volume", f"{configuration}:/etc/pip.conf:ro", *_mount(CERTIFICATES), *mounts),
    ]


def _top(path: Path) -> Path:
    """Return the folder to mount for a path that pip's settings name; certificates are mounted anyway."""
    return Path(*path.parts[:3]) if not path.is_relative_to(CERTIFICATES) else CERTIFICATES / "nothing"


def _mount(folder: Path) -> Iterator[str]:
    if folder.exists():
        yield from ("--volume", f"{folder}:{folder}:ro")


def torch_index(default: str) -> str:
    """Return torch's own index of CPU builds where it answers, else nothing: pip's settings then name an index."""
    return os.environ.get("BIASGATE_CONTAINERS_TORCH_INDEX", default if answers(f"{default}/torch/") else "")


def describe(podman: Podman, image: str) -> dict[str, object]:
    """Return an image's configuration: user, entry point, command, variables."""
    return dict(json.loads(podman.run("inspect", "--type", "image", "--format", "{{json .Config}}", image)))
