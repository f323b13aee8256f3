"""Keep one carried part on the GPU machine; the last part installs all wheels.

    python3 -m tools.gpu.receive .gpu/part-00 [--home DIRECTORY]

Standard library only: nothing is installed there before the last part.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HOME = Path("/tmp/biasgate-gpu")
LAUNCHER = """#!/bin/sh
# Written by tools/gpu/receive.py: `vllm serve` of the carried wheels on this machine's own torch.
export PYTHONPATH={site}${{PYTHONPATH:+:$PYTHONPATH}}
exec {python} {arguments}"$@"{options}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", type=Path)
    parser.add_argument("--home", type=Path, default=HOME, help="(default %(default)s)")
    options = parser.parse_args()
    count = keep_part(options.part, options.home)
    kept = sorted(options.home.glob("part-*"))
    print(f"{len(kept)} of {count} parts")
    if len(kept) == count:
        install_wheels(kept, options.home)
        print(f"installed in {options.home / 'site'}")
    return 0


def keep_part(part: Path, home: Path) -> int:
    """Copy a part and return how many there are in all. Raises SystemExit when its content is damaged."""
    content = (part / "content").read_bytes()
    if hashlib.sha256(content).hexdigest() != (part / "sha256").read_text():
        raise SystemExit(f"{part}: damaged on the way, carry it again")
    home.mkdir(parents=True, exist_ok=True)
    (home / part.name).write_bytes(content)
    return int((part / "count").read_text())


def install_wheels(parts: list[Path], home: Path) -> None:
    """Install the wheels of all parts in `home/site` and write the commands of a vLLM environment to `home/env`."""
    archive, wheels, site = home / "wheels.tar", home / "wheels", home / "site"
    with archive.open("wb") as target:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, target)
    with tarfile.open(archive) as tar:
        tar.extractall(wheels, filter="data")
    archive.unlink()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    pip += ["--no-cache-dir", "--upgrade", "--target", str(site)]
    subprocess.run([*pip, *map(str, sorted(wheels.glob("*.whl")))], check=True)
    subprocess.run([*pip, "--no-build-isolation", "."], check=True)  # the suites are found by entry points
    # Without byte code each start of vLLM compiles for half a minute.
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(site)], check=False)
    write_environment(home)


def write_environment(home: Path) -> None:
    """Write `home/env` with `bin/python` and `bin/vllm`, as the tests of a real vLLM expect an environment."""
    commands = home / "env" / "bin"
    commands.mkdir(parents=True, exist_ok=True)
    site = home / "site"
    share = " --gpu-memory-utilization 0.3 --enforce-eager"
    for name, arguments, options in (("python", "", ""), ("vllm", "-m vllm.entrypoints.cli.main ", share)):
        path = commands / name
        path.write_text(LAUNCHER.format(site=site, python=sys.executable, arguments=arguments, options=options))
        path.chmod(0o755)
    (home / "env" / ".biasgate-ready").touch()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
